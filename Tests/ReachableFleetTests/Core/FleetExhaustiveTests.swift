import StateExploration
import TestSupport
import Testing

@testable import ReachableFleet

/// Checks the promises in every state that three machines can reach.
///
/// Each setting bounds the disturbances of a run, and is complete: no state is left out. The variables `FLEET_EXPLORE` and
/// `FLEET_EXPLORE_WHOLE` widen a debug build: see ``Exploration/check(_:_:isSmall:variable:nearest:)``.
@Suite(.serialized, .timeLimit(.minutes(60)), .computing) struct FleetExhaustiveTests {
    typealias Setting = ExploredFleet.Setting

    private static let settings = [
        Setting(name: "two machines that start", names: ["a", "b"], disturbances: [:], isCold: true, isSmall: true),
        Setting(name: "three machines that start", disturbances: [:], isCold: true, isSmall: true),
        Setting(name: "a takeover", disturbances: [.cut: 1], isSmall: true),
        Setting(name: "two takeovers with late wills", disturbances: [.cut: 2], holdsWills: true),
        Setting(name: "two of a crash, a freeze and a takeover", disturbances: [.crash: 1, .freeze: 1, .cut: 1], most: 2),
        Setting(name: "a crash and a lost epoch, late", disturbances: [.crash: 1, .lostEpoch: 1, .lateness: 1], holdsWills: true),
        Setting(name: "two crashes", names: ["a", "b"], disturbances: [.crash: 2, .lostEpoch: 1], holdsWills: true),
        Setting(name: "a restart of the broker and a crash", disturbances: [.restart: 1, .crash: 1]),
        Setting(
            name: "a restart of the broker without its store and a crash with a lost epoch", names: ["a", "b"],
            disturbances: [.restartWithoutStore: 1, .crash: 1, .lostEpoch: 1]),
        Setting(name: "two of a change, a stop and late time", disturbances: [.verdict: 1, .stop: 1, .lateness: 1], most: 2),
        Setting(
            name: "triggers that are repeated and reordered", disturbances: [.trigger: 2, .duplicate: 1, .reorder: 1], most: 3),
        Setting(
            name: "repeated and reordered words after a takeover", disturbances: [.cut: 1, .duplicate: 1, .reorder: 1], most: 3),
        Setting(
            name: "a forgotten node and a takeover", names: ["a", "b"], disturbances: [.forget: 1, .cut: 1, .crash: 1], most: 2),
        Setting(
            name: "two machines of one name that start", names: ["a", "b", "b"], disturbances: [:], isCold: true, isSmall: true),
        Setting(
            name: "two machines of one name, and a crash or a takeover", names: ["a", "b", "b"],
            disturbances: [.crash: 1, .cut: 1], most: 1),
    ]

    @Test(arguments: settings.map(\.name)) func promisesHoldInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        // Without optimization about 1 s.
        Exploration.check(
            try ExploredFleet(setting), setting.name, isSmall: setting.isSmall, variable: "FLEET_EXPLORE", nearest: 700)
    }
}
