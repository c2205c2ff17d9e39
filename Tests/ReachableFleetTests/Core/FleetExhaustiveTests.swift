import Glibc
import StateExploration
import TestSupport
import Testing

@testable import ReachableFleet

/// Checks the promises in every state that three machines can reach.
///
/// Each setting bounds the disturbances of a run, and is complete: no state is left out. A debug build explores the small
/// settings whole and the nearest states of the others, and prints how many it left out. Environment variables widen them; use
/// them with optimization: `swift test -c release -Xswiftc -enable-testing`.
///
/// - `FLEET_EXPLORE_WHOLE`: all states of all settings.
/// - `FLEET_EXPLORE`, a number: this many states of each.
@Suite(.serialized, .timeLimit(.minutes(60)), .computing) struct FleetExhaustiveTests {
    typealias Setting = ExploredFleet.Setting

    private static let isWhole = getenv("FLEET_EXPLORE_WHOLE") != nil
    private static let statesFromEnvironment = getenv("FLEET_EXPLORE").flatMap { Int(String(cString: $0)) }
    /// The number of states to explore: without optimization about 1 s.
    private static let nearest = 700

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
        let isWhole = Self.isWhole || setting.isSmall
        let limit = isWhole ? .max : Self.statesFromEnvironment ?? Self.nearest
        let start = ContinuousClock.now
        let outcome = Exploration.explore(try ExploredFleet(setting), limit: limit)
        print("\(setting.name): \(outcome.summary), in \(ContinuousClock.now - start)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        #expect(outcome.isComplete || !isWhole && outcome.states >= limit)
    }
}
