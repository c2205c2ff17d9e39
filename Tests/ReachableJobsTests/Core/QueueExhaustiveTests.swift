import StateExploration
import TestSupport
import Testing

@testable import ReachableJobs

/// Checks the promises in every state that two workers with three jobs can reach.
///
/// Each setting bounds the disturbances of a run, and is complete: no state is left out. The variables `QUEUE_EXPLORE` and
/// `QUEUE_EXPLORE_WHOLE` widen a debug build: see ``Exploration/check(_:_:isSmall:variable:nearest:)``.
@Suite(.serialized, .timeLimit(.minutes(60)), .computing) struct QueueExhaustiveTests {
    typealias Setting = ExploredQueue.Setting

    private static let settings = [
        Setting(name: "no disturbance", disturbances: [:], isSmall: true),
        Setting(name: "one worker that crashes", workers: 1, disturbances: [.crash: 1], isSmall: true),
        Setting(
            name: "one worker on a store that fails", workers: 1,
            disturbances: [.failedBatch: 2, .failedAttempt: 1, .crash: 1, .lateness: 1]),
        Setting(name: "two crashes", disturbances: [.crash: 2, .failedAttempt: 1]),
        Setting(name: "the end of a lease", disturbances: [.stop: 1, .failedBatch: 1]),
        Setting(name: "late batches and starts", disturbances: [.lateness: 2, .failedBatch: 1]),
        Setting(
            name: "one place on each bus, and late batches and starts", places: 1, disturbances: [.lateness: 2, .failedAttempt: 1]),
        Setting(name: "two requests to cancel", disturbances: [.cancel: 2, .crash: 1]),
        Setting(name: "two lost networks", disturbances: [.lostNetwork: 2, .failedAttempt: 1]),
        Setting(name: "a clock step", disturbances: [.clock: 1, .reboot: 1, .suspension: 1, .failedAttempt: 1]),
        Setting(name: "two shutdowns", disturbances: [.shutDown: 2, .failedBatch: 1]),
        Setting(
            name: "jobs that run alone, and two of a shutdown, a lost network and a request to cancel",
            jobs: [(nil, 3), (nil, 3), (nil, 0)], disturbances: [.shutDown: 1, .lostNetwork: 1, .cancel: 1], most: 2),
        Setting(
            name: "two of a crash, the end of a lease, a request to cancel and a clock step",
            disturbances: [.crash: 1, .stop: 1, .cancel: 1, .clock: 1, .reboot: 1], most: 2),
        Setting(
            name: "jobs that must not be repeated, and two of a crash, a reboot, the end of a lease and a shutdown",
            // A job that fails would hold up the others with its key.
            jobs: [(nil, 0), (nil, 0)], isRepeatable: false,
            disturbances: [.crash: 1, .reboot: 1, .stop: 1, .shutDown: 1, .failedAttempt: 1], most: 2),
    ]

    @Test(arguments: settings.map(\.name)) func promisesHoldInEveryState(name: String) throws {
        let setting = try #require(Self.settings.first { $0.name == name })
        // Without optimization less than 1 s.
        Exploration.check(
            try ExploredQueue(setting), setting.name, isSmall: setting.isSmall, variable: "QUEUE_EXPLORE", nearest: 500)
    }
}
