import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Changes between the release of an attempt and its task's run: the main actor is busy with the test.
@Suite(.timeLimit(.minutes(10))) @MainActor struct HandOverTests {
    enum Turn: CaseIterable {
        case cancelled, pastItsDeadline, offlineAgain
    }

    @Test(arguments: Turn.allCases) func attemptCancelledBeforeItsStartDoesNotRun(turn: Turn) async throws {
        try await Scenario(online: false).run { @MainActor scenario in
            let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(5)).attemptTimeout(.seconds(2))
                .interruptsAttempt(.whenUnsatisfied(grace: .zero)).giveUpAfter(maxAttempts: 1)
            var attempts = 0
            let job = Task { try await scenario.bus.retry(policy, options: JobOptions(id: "job")) { _ in attempts += 1 } }
            try await scenario.bus.parked("job")
            try scenario.network.plug("eth0")
            switch turn {
            case .cancelled: scenario.bus.cancel("job")
            case .pastItsDeadline: scenario.clock.jump(by: .seconds(5))
            case .offlineAgain:
                try scenario.network.pull("eth0")
                try await scenario.bus.parked("job")
                scenario.clock.advance(by: .seconds(5))
            }
            let result = await job.result
            #expect(attempts == 0)
            switch turn {
            case .cancelled: #expect(throws: CancellationError.self) { try result.get() }
            case .pastItsDeadline, .offlineAgain: #expect(throws: RetryError.deadline) { try result.get() }
            }
        }
    }

    @Test func aLateStartUsesUpNoTimeLimit() async throws {
        try await Scenario(online: false).run { @MainActor scenario in
            let policy = RetryPolicy.scenario.attemptTimeout(.seconds(2)).giveUpAfter(maxAttempts: 1)
            let job = Task { try await scenario.bus.retry(policy, options: JobOptions(id: "job")) { $0.timeLimit } }
            try await scenario.bus.parked("job")
            try scenario.network.plug("eth0")
            scenario.clock.advance(by: .seconds(2))
            try await #expect(job.value == .seconds(2))
        }
    }

    @Test func aCancelledJobsNameIsFreeAtOnce() async throws {
        try await Scenario(online: false).run { @MainActor scenario in
            let job = Task { try await scenario.bus.retry(options: JobOptions(id: "job")) { _ in 1 } }
            try await scenario.bus.parked("job")
            let events = scenario.bus.events
            scenario.bus.cancel("job")
            try scenario.network.plug("eth0")
            // The old job's task learns of its end while the new one runs, and takes nothing from it.
            let value = try await scenario.bus.retry(options: JobOptions(id: "job")) { _ in
                await #expect(throws: CancellationError.self) { try await job.value }
                await #expect(throws: RetryError.duplicateID) {
                    try await scenario.bus.retry(options: JobOptions(id: "job")) { _ in }
                }
                return 2
            }
            #expect(value == 2)
            #expect(scenario.bus.usage == [0, 0, 0, 1, 0])
            await scenario.bus.shutdown(drain: nil)
            for await event in events { #expect(event.job == "job") }
        }
    }
}
