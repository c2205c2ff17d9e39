import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// The properties of an attempt.
@Suite(.timeLimit(.minutes(10))) struct AttemptTests {
    /// Keeps the epochs of a job's attempts.
    private final class Epochs: Sendable {
        private let epochs = Recorder<UInt64>()

        func note(_ attempt: Attempt) { epochs.record(attempt.epoch) }

        /// The growth of the epoch from attempt to attempt.
        var steps: [UInt64] {
            let epochs = epochs.value
            return zip(epochs.dropFirst(), epochs).map { $0 &- $1 }
        }
    }

    @Test func epochCountsReconnectsBetweenAttempts() async throws {
        try await Scenario().run { scenario in
            let epochs = Epochs()
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(10)))
            let task = Task {
                try await scenario.bus.retry(policy, options: JobOptions(id: "job")) { attempt in
                    epochs.note(attempt)
                    if attempt.number < 4 { throw Trouble.other }
                }
            }
            try await scenario.bus.parked("job")
            scenario.clock.advance(by: .seconds(10))
            try await scenario.bus.parked("job")
            // The delay ends at once: the next edge belongs to this attempt.
            try scenario.network.pull("eth0")
            try scenario.network.plug("eth0")
            try await scenario.bus.parked("job")
            scenario.clock.advance(by: .seconds(10))
            try await task.value
            #expect(epochs.steps == [0, 1, 0])
        }
    }

    @Test func reconnectDuringAnAttemptCountsForTheNextOne() async throws {
        try await Scenario().run { scenario in
            let epochs = Epochs()
            try await scenario.bus.retry(.scenario) { attempt in
                epochs.note(attempt)
                guard attempt.number == 1 else { return }
                for _ in 1...2 {
                    try scenario.network.pull("eth0")
                    try scenario.network.plug("eth0")
                }
                throw Trouble.other
            }
            #expect(epochs.steps == [2])
        }
    }

    @Test func otherConditionsCountToo() async throws {
        try await Scenario().run { scenario in
            let epochs = Epochs()
            let login = ConditionSource("logged in", isSatisfied: true)
            let task = Task {
                try await scenario.bus.retry(.scenario, options: JobOptions(when: [login.condition], id: "job")) { attempt in
                    epochs.note(attempt)
                    if attempt.number == 1 { throw Trouble.other }
                }
            }
            try await scenario.bus.parked("job")
            login.set(false)
            login.set(true)
            try await task.value
            #expect(epochs.steps == [1])
        }
    }
}
