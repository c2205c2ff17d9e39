import Glibc
import Testing

@testable import ReachableJobs

/// Checks the promises in every state that two workers with three jobs can reach.
///
/// Explores the nearest states, and prints how many it left out. `QUEUE_EXPLORE`, a number, sets how many; 0 is all. Use it with
/// optimization: `swift test -c release -Xswiftc -enable-testing`.
@Suite(.serialized, .timeLimit(.minutes(60))) struct QueueExhaustiveTests {
    typealias Setting = QueueExploration.Setting

    private static let limit: Int = {
        guard let number = getenv("QUEUE_EXPLORE").flatMap({ Int(String(cString: $0)) }) else { return 3000 }
        return number == 0 ? .max : number
    }()

    private static let settings = [
        Setting(name: "crashes", disturbances: [.crash: 2, .failedAttempt: 1]),
        Setting(name: "ends of leases", disturbances: [.stop: 1, .time: 2, .failedTurn: 1]),
        Setting(name: "requests to cancel", disturbances: [.cancel: 2, .crash: 1, .failedTurn: 1]),
        Setting(name: "lost networks", disturbances: [.lostNetwork: 2, .failedAttempt: 1, .time: 1]),
        Setting(name: "a worker on a store that fails", workers: 1, disturbances: [.failedTurn: 2, .failedAttempt: 1, .time: 1]),
        Setting(name: "clock steps", disturbances: [.clock: 2, .suspension: 1, .time: 1, .reboot: 1]),
        Setting(name: "shutdowns", disturbances: [.shutDown: 2, .failedTurn: 1, .time: 1]),
        Setting(
            name: "jobs that run alone", jobs: [(nil, 3), (nil, 3), (nil, 0)],
            disturbances: [.shutDown: 1, .lostNetwork: 1, .cancel: 1, .time: 1]),
        Setting(
            name: "everything once",
            disturbances: Dictionary(uniqueKeysWithValues: QueueExploration.Disturbance.allCases.map { ($0, 1) })),
    ]

    @Test(arguments: settings.map(\.name)) func promisesHoldInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        let start = ContinuousClock.now
        let outcome = try QueueExploration.explore(setting, limit: Self.limit)
        print(
            "\(setting.name): \(outcome.states) states, \(outcome.steps) steps between them, depth \(outcome.depth),"
                + " the steps of \(outcome.unexplored) states left out, in \(ContinuousClock.now - start)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        #expect(outcome.unexplored == 0 || outcome.states >= Self.limit)
    }
}
