import Glibc
import StateExploration
import TestTraits
import Testing

@testable import ReachableFleet

/// Checks the site's rules in every state that three machines with one or two destinations can reach.
///
/// No machine waits longer than 15 s after its edge. An own answer ends every hold. All jobs end, and no word of a machine that
/// runs is left. While all words are true, the broker is there, and time passes only when nothing is on its way, at most one
/// machine tries a destination within 5 s before one is answered; its own retries do not count. Within 1 s of the moment at which
/// the number of edges changes there may be two.
///
/// `FLEET_EXPLORE` explores this many states of each setting, and `FLEET_EXPLORE_WHOLE` all; use them with optimization. Two of a
/// crash, a cut and late time reach more than 3 million states: the first 3 million took half an hour and 8 GB.
@Suite(.serialized, .timeLimit(.minutes(60)), .computing) struct SiteExhaustiveTests {
    private typealias Setting = ExploredSite.Setting

    private static let isWhole = getenv("FLEET_EXPLORE_WHOLE") != nil
    private static let statesFromEnvironment = getenv("FLEET_EXPLORE").flatMap { Int(String(cString: $0)) }
    private static let nearest = 500

    private static let settings = [
        Setting(name: "one destination that answers", disturbances: [:], destinations: ["x"]),
        Setting(name: "one destination that fails first", disturbances: [.failure: 2], destinations: ["x"]),
        Setting(name: "two destinations", disturbances: [.failure: 1]),
        Setting(name: "two destinations between two edges", disturbances: [:], isBetweenEdges: true),
        Setting(name: "a crash", disturbances: [.crash: 1], destinations: ["x"]),
        Setting(name: "a cut", disturbances: [.cut: 1], destinations: ["x"]),
        Setting(name: "a crash, two destinations", disturbances: [.crash: 1]),
        Setting(name: "a cut, two destinations", disturbances: [.cut: 1]),
        Setting(
            name: "two of a crash, a cut and late time", disturbances: [.crash: 1, .cut: 1, .lateness: 1], destinations: ["x"]),
        Setting(name: "a restart of the broker", disturbances: [.restart: 1, .failure: 1], destinations: ["x"]),
        Setting(name: "lies", disturbances: [.lie: 2, .lateness: 1], destinations: ["x"]),
    ]

    @Test(arguments: settings.map(\.name)) func rulesHoldInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        let limit = Self.isWhole ? .max : Self.statesFromEnvironment ?? Self.nearest
        let outcome = Exploration.explore(try ExploredSite(setting), limit: limit)
        print("\(name): \(outcome.summary)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        #expect(outcome.isComplete || !Self.isWhole && outcome.states >= limit)
    }
}
