import ArgumentParser
import Glibc
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The session of `run`, with closures as commands.
@Suite(.timeLimit(.minutes(10))) struct RunSessionTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let monitor: ReachabilityMonitor
    private let said = Rendezvous<[String]>([])

    init() {
        network = .online(clock: clock)
        monitor = ReachabilityMonitor(network)
    }

    /// Makes a session.
    ///
    /// - Parameter step: The time that passes whenever the session reports a wait.
    private func session(
        _ policy: RetryPolicy, to scopes: [Scope] = [.internet], passing step: Duration? = nil,
        _ command: @escaping @Sendable () async throws(ChildFailure) -> Void
    ) -> RunSession {
        RunSession(
            monitor: monitor, scopes: scopes, policy: policy, clock: PunctualClock(manual: clock),
            say: { [said, clock] line in
                said.change { $0.append(line) }
                if let step, Self.waits.contains(where: line.contains) { clock.advance(by: step) }
            }, command: command)
    }

    /// The messages after which the session waits for time or the network.
    private static let waits = ["next attempt in", "waiting for it", "trying again until it can"]

    private func policy(_ words: String...) throws -> RetryPolicy {
        try RunCommand.parse(["--jitter", "none"] + words + ["--", "true"]).retry.policy
    }

    private static func fails(_ code: Int32) -> @Sendable () async throws(ChildFailure) -> Void {
        { () async throws(ChildFailure) in throw ChildFailure(cause: .exited(code)) }
    }

    /// Returns a command that takes a time, and then runs until it is terminated.
    private func isTerminated(after time: Duration) -> @Sendable () async throws(ChildFailure) -> Void {
        { [clock] () async throws(ChildFailure) in
            clock.advance(by: time)
            await untilCancelled()
            throw ChildFailure(cause: .signaled(15), interruption: .timeLimit)
        }
    }

    /// Returns an unreachable scope: the simulated network has no IPv6.
    private func nowhere() throws -> Scope { .address(try #require(IPAddress("2001:db8::1"))) }

    private func untilSaid(_ line: String) async throws { try await said.wait { $0.contains(line) } }

    @Test func aSuccessExits0() async throws {
        let session = session(try policy()) {}
        let outcome = await session.run()
        #expect(outcome.code == 0 && outcome.summary.attempts == 1 && outcome.summary.startedOffline == 0)
        #expect(said.value.isEmpty)
    }

    @Test func theLastExitCodeIsPassedOn() async throws {
        let session = session(try policy("--attempts", "3", "--backoff", "constant:1s"), passing: .seconds(1), Self.fails(42))
        let outcome = await session.run()
        #expect(outcome.code == 42 && outcome.summary.attempts == 3 && outcome.summary.charged == 3)
        #expect(
            said.value == [
                "attempt 1 failed: exit code 42", "next attempt in 1s, sooner if the network reconnects",
                "attempt 2 failed: exit code 42",
                "next attempt in 1s, sooner if the network reconnects", "attempt 3 failed: exit code 42",
                "giving up after 3 attempts: no more are allowed; next: raise --attempts",
            ])
    }

    @Test func attemptsStartWhenTheNetworkIsBack() async throws {
        try network.pull("eth0")
        let session = session(try policy("--attempts", "1")) {}
        let running = Task { await session.run() }
        try await said.wait { !$0.isEmpty }
        clock.advance(by: .seconds(10))
        try network.plug("eth0")
        let outcome = await running.value
        #expect(outcome.code == 0 && outcome.summary.waited == .seconds(10) && outcome.summary.reconnectToAttempt == .zero)
        #expect(outcome.summary.startedOffline == 0)
        #expect(
            said.value == [
                "no network (eth0 has no carrier): waiting for it", "the network is back after 10s: attempt 1 starts",
            ])
    }

    @Test func reconnectsAfterKnownOutagesAreTimed() async throws {
        try network.pull("eth0")
        let watching = Task { try? await monitor.run() }
        for await health in monitor.healthUpdates where health.mode != .starting { break }
        let session = session(try policy("--attempts", "1")) {}
        let running = Task { await session.run() }
        try await untilSaid("no network (eth0 has no carrier): waiting for it")
        try network.plug("eth0")
        #expect(await running.value.summary.reconnectToAttempt == .zero)
        watching.cancel()
        await watching.value
    }

    @Test func everyOutageIsReported() async throws {
        let session = session(try policy("--backoff", "constant:1h")) { [network] () async throws(ChildFailure) in
            // An outage breaks off each attempt.
            try? network.pull("eth0")
            throw ChildFailure(cause: .exited(1))
        }
        let running = Task { await session.run() }
        for attempt in 1...3 {
            try await untilSaid(
                "attempt \(attempt) failed: exit code 1; it does not count: no network (eth0 has no carrier), waiting for it")
            clock.advance(by: .seconds(120))
            try network.plug("eth0")
            try await untilSaid("the network is back after 2m: attempt \(attempt + 1) starts")
        }
        running.cancel()
        let outcome = await running.value
        #expect(outcome.summary.charged == 0 && outcome.summary.brokenOff >= 3 && outcome.summary.startedOffline == 0)
    }

    @Test func ignoredOutagesAreNotReported() async throws {
        try network.pull("eth0")
        let policy = try policy("--connectivity", "ignore", "--attempts", "2", "--backoff", "constant:1s")
        let outcome = await session(policy, passing: .seconds(1), Self.fails(1)).run()
        #expect(outcome.code == 1 && outcome.summary.charged == 2)
        #expect(
            said.value == [
                "attempt 1 failed: exit code 1", "next attempt in 1s", "attempt 2 failed: exit code 1",
                "giving up after 2 attempts: no more are allowed; next: raise --attempts",
            ])
    }

    @Test func runWaitsForAllScopes() async throws {
        let session = session(try policy("--deadline", "5s"), to: [.internet, try nowhere()], passing: .seconds(5)) {}
        let outcome = await session.run()
        #expect(outcome.code == 124 && outcome.summary.attempts == 0)
        let lines = said.value
        #expect(lines.first?.hasPrefix("no path to 2001:db8::1 (") == true && lines.first?.hasSuffix("): waiting for it") == true)
        #expect(lines.last == "giving up before the first attempt: the deadline has passed; next: raise --deadline")
    }

    @Test(arguments: ["accelerate", "ignore"]) func otherRulesWaitForNoScope(rule: String) async throws {
        let session = session(try policy("--connectivity", rule, "--deadline", "5s"), to: [.internet, try nowhere()]) {}
        let outcome = await session.run()
        #expect(outcome.code == 0 && outcome.summary.attempts == 1)
    }

    @Test func anAttemptAtTheDeadlineHasNotFailed() async throws {
        let session = session(try policy("--deadline", "5s"), isTerminated(after: .seconds(5)))
        let outcome = await session.run()
        #expect(outcome.code == 124 && outcome.summary.attempts == 1)
        #expect(said.value == ["giving up after 1 attempt: the deadline has passed; next: raise --deadline"])
    }

    @Test func aSlowAttemptIsRetried() async throws {
        let policy = try policy("--attempt-timeout", "5s", "--attempts", "2", "--backoff", "constant:1s")
        let outcome = await session(policy, passing: .seconds(1), isTerminated(after: .seconds(5))).run()
        #expect(outcome.code == 124 && outcome.summary.charged == 2)
        #expect(said.value.first == "attempt 1 failed: it took too long")
    }

    @Test func aShortageIsNotCounted() async throws {
        let failures = Mutex([EAGAIN, ENOMEM, ETXTBSY])
        let session = session(try policy("--attempts", "1", "--backoff", "constant:1s"), passing: .seconds(1)) {
            () async throws(ChildFailure) in
            let next = failures.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            if let next { throw ChildFailure(cause: .notStarted("make", next)) }
        }
        let outcome = await session.run()
        #expect(outcome.code == 0 && outcome.summary.attempts == 4 && outcome.summary.charged == 0)
        #expect(outcome.summary.lines[0] == "attempts: 4, of which failed: 0, broken off by an outage: 0, not started: 3")
        let texts = [
            "Resource temporarily unavailable (errno 11)", "Cannot allocate memory (errno 12)", "Text file busy (errno 26)",
        ]
        #expect(
            said.value
                == zip(1..., texts).map { number, text in
                    "attempt \(number): make cannot be started now: \(text); it does not count, trying again until it can"
                })
    }

    @Test func theDeadlineEndsTheWaitForAStart() async throws {
        let session = session(try policy("--deadline", "5s", "--backoff", "constant:10s"), passing: .seconds(5)) {
            () async throws(ChildFailure) in
            throw ChildFailure(cause: .notStarted("make", EAGAIN))
        }
        let outcome = await session.run()
        #expect(outcome.code == 124 && outcome.summary.attempts == 1)
        #expect(said.value.last == "giving up after 1 attempt: the deadline has passed; next: raise --deadline")
    }

    @Test func aShortageDuringAnOutageWaitsForTheNetwork() async throws {
        let starts = Counter()
        let session = session(try policy("--attempts", "1")) { [network] () async throws(ChildFailure) in
            guard starts.add() == 1 else { return }
            try? network.pull("eth0")
            throw ChildFailure(cause: .notStarted("make", EAGAIN))
        }
        let running = Task { await session.run() }
        try await untilSaid("no network (eth0 has no carrier): waiting for it")
        clock.advance(by: .seconds(60))
        #expect(starts.value == 1)
        try network.plug("eth0")
        let outcome = await running.value
        #expect(outcome.code == 0 && outcome.summary.attempts == 2 && outcome.summary.charged == 0)
        let text = "make cannot be started now: Resource temporarily unavailable (errno 11)"
        #expect(
            said.value == [
                "attempt 1: \(text); it does not count, trying again until it can",
                "no network (eth0 has no carrier): waiting for it", "the network is back after 1m: attempt 2 starts",
            ])
    }

    @Test func aReconnectCountsFromTheLastScope() async throws {
        try network.pull("eth0")
        let session = session(try policy("--attempts", "1"), to: [.internet, try nowhere()]) {}
        let running = Task { await session.run() }
        try await said.wait { !$0.isEmpty }
        try network.plug("eth0")
        clock.advance(by: .seconds(60))
        try network.addAddress("eth0", "2001:db8:1::10/64", skipsDetection: true)
        try network.addRoute(to: "::/0", via: "2001:db8:1::1", dev: "eth0")
        #expect(await running.value.summary.reconnectToAttempt == .zero)
    }

    @Test func theDeadlineExits124() async throws {
        try network.pull("eth0")
        let outcome = await session(try policy("--deadline", "5s"), passing: .seconds(5)) {}.run()
        #expect(outcome.code == 124 && outcome.summary.attempts == 0 && outcome.summary.waited == .seconds(5))
    }

    @Test func theDeadlineExits124AfterFailures() async throws {
        let session = session(try policy("--deadline", "5s", "--backoff", "constant:2s"), passing: .seconds(2), Self.fails(1))
        let outcome = await session.run()
        #expect(outcome.code == 124 && outcome.summary.charged == 3)
    }

    @Test(arguments: [126, 127] as [Int32]) func unexecutableCommandsAreNotRetried(code: Int32) async throws {
        let session = session(try policy(), Self.fails(code))
        let outcome = await session.run()
        #expect(outcome.code == code && outcome.summary.attempts == 1)
    }

    @Test func chosenCodesAreFinal() async throws {
        let session = session(try policy("--give-up-on", "5-7"), Self.fails(6))
        let outcome = await session.run()
        #expect(outcome.code == 6 && outcome.summary.attempts == 1)
        #expect(said.value.last == "giving up after 1 attempt: another one would fail the same way")
    }

    @Test func aSignalledAttemptIsNotRetriedNorReported() async throws {
        let session = session(try policy()) { () async throws(ChildFailure) in
            throw ChildFailure(cause: .signaled(15), interruption: .signal)
        }
        let outcome = await session.run()
        #expect(outcome.code == 143 && outcome.summary.attempts == 1 && said.value.isEmpty)
    }

    @Test func aBlindMonitorDoesNotStopAttempts() async throws {
        network.stop(throwing: ReachabilityError(.netlinkUnavailable, errno: 1, operation: "socket(AF_NETLINK)"))
        let policy = try policy("--attempts", "2", "--backoff", "constant:1s")
        let outcome = await session(policy, to: [.internet, try nowhere()], passing: .seconds(1), Self.fails(3)).run()
        #expect(outcome.code == 3 && outcome.summary.attempts == 2 && outcome.summary.startedOffline == 0)
        let lines = said.value
        #expect(lines.count { $0.contains("without waiting for the network") } == 1)
        #expect(lines.contains("next attempt in 1s"))
    }
}

/// A manual clock on which a timer that is set late fires at once, as on a real one.
///
/// A session sets its timers on its own threads: time may have passed by then.
private struct PunctualClock: SchedulingClock {
    typealias Instant = ManualClock.Instant

    let manual: ManualClock

    var now: Instant { manual.now }
    var minimumResolution: Duration { manual.minimumResolution }
    var identity: ObjectIdentifier { manual.identity }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await manual.sleep(until: deadline, tolerance: tolerance)
    }

    func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let takeBack = manual.callBack(at: deadline, action)
        if deadline <= manual.now { manual.advance(by: .zero) }
        return takeBack
    }
}
