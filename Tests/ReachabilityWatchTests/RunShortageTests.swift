import ArgumentParser
import Glibc
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// `run` while its command cannot start for lack of a resource.
@Suite(.timeLimit(.minutes(10))) struct RunShortageTests {
    private struct Result {
        var starts: [Duration] = []
        var lines: [String] = []
        var kinds: [RetryEvent.Kind] = []
    }

    /// Runs a command that fails with these causes in turn, and then succeeds.
    private func result(of failures: [ChildFailure.Cause], _ words: String...) async throws -> Result {
        let policy = try RunCommand.parse(["--jitter", "none"] + words + ["--", "make"]).retry.policy
        let starts = Recorder<Duration>()
        return try await TestWorld().run { world in
            let events = world.bus.events
            let clock = world.clock
            world.start {
                try await world.bus.retry(policy) { attempt in
                    starts.record(clock.now.offset)
                    if attempt.number <= failures.count { throw ChildFailure(cause: failures[attempt.number - 1]) }
                }
            }
            await clock.advance(by: .seconds(3600))
            await world.bus.shutdown(drain: nil)
            var result = Result(starts: starts.value)
            var messages = RunMessages()
            for await event in events {
                result.kinds.append(event.kind)
                if let line = messages.line(for: event, { .init() }) { result.lines.append(line) }
            }
            return result
        }
    }

    private static let shortage = ChildFailure.Cause.notStarted("make", EAGAIN)
    private static let words = "make cannot be started now: Resource temporarily unavailable (errno 11)"
    private static let outlook = "it does not count, trying again until it can"

    @Test func startsAreRepeatedAfterAtLeastASecond() async throws {
        let failures = Array(repeating: Self.shortage, count: 4)
        let short = try await result(of: failures, "--attempts", "1", "--backoff", "immediate")
        #expect(short.starts == [0, 1, 2, 3, 4].map { .seconds($0) } && short.kinds.last == .succeeded)
        let growing = try await result(of: failures, "--attempts", "1", "--backoff", "exponential:500ms..3s")
        #expect(growing.starts == [0, 1, 2, 4, 7].map { .seconds($0) } && growing.kinds.last == .succeeded)
    }

    @Test func anImmediateRetryIsNotInZeroMilliseconds() async throws {
        let result = try await result(of: [.exited(1)], "--backoff", "immediate")
        #expect(result.kinds.contains(.backingOff) == result.lines.contains("next attempt now"))
        #expect(!result.lines.contains { $0.contains("0ms") || $0.contains("0s") }, "\(result.lines)")
    }

    @Test func aShortageIsNoneOfTheChosenCodes() async throws {
        let result = try await result(of: [Self.shortage], "--give-up-on", "126")
        #expect(result.starts.count == 2 && result.kinds.last == .succeeded)
    }

    @Test func aLastingShortageIsReportedOnce() async throws {
        let other = ChildFailure.Cause.notStarted("make", ENOMEM)
        let result = try await result(
            of: [Self.shortage, Self.shortage, other, Self.shortage, .exited(1), Self.shortage], "--backoff", "constant:1s")
        #expect(
            result.lines == [
                "attempt 1: \(Self.words); \(Self.outlook)",
                "attempt 3: make cannot be started now: Cannot allocate memory (errno 12); \(Self.outlook)",
                "attempt 4: \(Self.words); \(Self.outlook)",
                "attempt 5 failed: exit code 1", "next attempt in 1s, sooner if the network reconnects",
                "attempt 6: \(Self.words); \(Self.outlook)",
            ])
    }
}
