import ArgumentParser
import Glibc
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

@testable import reachability_watch

/// What `run` does, with commands that are none.
@Suite(.timeLimit(.minutes(10))) struct RunSessionTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let monitor: ReachabilityMonitor
    private let said = Said()

    private final class Said: Sendable {
        let lines = Mutex<[String]>([])
    }

    init() {
        network = .online(clock: clock)
        monitor = ReachabilityMonitor(network)
    }

    private func session(
        _ policy: RetryPolicy, to scopes: [Scope] = [.internet],
        _ command: @escaping @Sendable () async throws(ChildFailure) -> Void
    ) -> RunSession {
        RunSession(
            monitor: monitor, scopes: scopes, policy: policy, clock: clock,
            say: { [said] line in said.lines.withLock { $0.append(line) } }, command: command)
    }

    private func policy(_ words: String...) throws -> RetryPolicy {
        try RunCommand.parse(["--jitter", "none"] + words + ["--", "true"]).retry.policy
    }

    private static func fails(_ code: Int32) -> @Sendable () async throws(ChildFailure) -> Void {
        { () async throws(ChildFailure) in throw ChildFailure(cause: .exited(code)) }
    }

    /// A command that goes on until it is terminated.
    private static let isTerminated: @Sendable () async throws(ChildFailure) -> Void = { () async throws(ChildFailure) in
        while !Task.isCancelled { await Task.yield() }
        throw ChildFailure(cause: .signaled(15), wasCut: true)
    }

    /// Not reached by the simulated network, which has no IPv6.
    private func nowhere() throws -> Scope { .address(try #require(IPAddress("2001:db8::1"))) }

    private func untilSaid(_ line: String) async {
        while !said.lines.withLock({ $0.contains(line) }) { await Task.yield() }
    }

    /// Lets time pass whenever something is due, until the session ends; jobs may come late.
    private func end(_ running: Task<RunSession.Outcome, Never>) async -> RunSession.Outcome {
        for await health in monitor.healthUpdates where health.mode != .starting { break }
        let driving = Task {
            while !Task.isCancelled {
                if let next = clock.nextDeadline { clock.advance(to: next) }
                await Task.yield()
            }
        }
        defer { driving.cancel() }
        return await running.value
    }

    @Test func aCommandThatSucceedsEndsItWithZero() async throws {
        let session = session(try policy()) {}
        let outcome = await session.run()
        #expect(outcome.code == 0 && outcome.summary.attempts == 1 && outcome.summary.startedOffline == 0)
        #expect(said.lines.withLock(\.self).isEmpty)
    }

    @Test func theLastCodeIsPassedOn() async throws {
        let session = session(try policy("--attempts", "3", "--backoff", "constant:1s"), Self.fails(42))
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 42 && outcome.summary.attempts == 3 && outcome.summary.charged == 3)
        #expect(
            said.lines.withLock(\.self) == [
                "attempt 1 failed: exit code 42", "next attempt in 1s, sooner if the network reconnects",
                "attempt 2 failed: exit code 42",
                "next attempt in 1s, sooner if the network reconnects", "attempt 3 failed: exit code 42",
                "giving up after 3 attempts: no more are allowed",
            ])
    }

    @Test func itStartsWhenTheNetworkIsBackAndNotBefore() async throws {
        try network.pull("eth0")
        let session = session(try policy("--attempts", "1")) {}
        let running = Task { await session.run() }
        while said.lines.withLock(\.isEmpty) { await Task.yield() }
        clock.advance(by: .seconds(10))
        try network.plug("eth0")
        let outcome = await running.value
        #expect(outcome.code == 0 && outcome.summary.waited == .seconds(10) && outcome.summary.reconnectToAttempt == .zero)
        #expect(outcome.summary.startedOffline == 0)
        #expect(
            said.lines.withLock(\.self) == [
                "no network (no carrier): waiting for it", "the network is back after 10s: attempt 1 starts",
            ])
    }

    @Test func aReconnectIsTimedAlsoIfTheOutageWasKnownBefore() async throws {
        try network.pull("eth0")
        let watching = Task { try? await monitor.run() }
        for await health in monitor.healthUpdates where health.mode != .starting { break }
        let session = session(try policy("--attempts", "1")) {}
        let running = Task { await session.run() }
        await untilSaid("no network (no carrier): waiting for it")
        try network.plug("eth0")
        #expect(await running.value.summary.reconnectToAttempt == .zero)
        watching.cancel()
        await watching.value
    }

    @Test func everyOutageIsTold() async throws {
        let session = session(try policy("--backoff", "constant:1h")) { [network] () async throws(ChildFailure) in
            // An outage of the network breaks off each of them.
            try? network.pull("eth0")
            throw ChildFailure(cause: .exited(1))
        }
        let running = Task { await session.run() }
        for attempt in 1...3 {
            await untilSaid("attempt \(attempt) failed: exit code 1; it does not count: no network (no carrier), waiting for it")
            clock.advance(by: .seconds(120))
            try network.plug("eth0")
            await untilSaid("the network is back after 2m: attempt \(attempt + 1) starts")
        }
        running.cancel()
        let outcome = await running.value
        #expect(outcome.summary.charged == 0 && outcome.summary.brokenOff >= 3 && outcome.summary.startedOffline == 0)
    }

    @Test func whoIgnoresTheNetworkIsNotToldOfIt() async throws {
        try network.pull("eth0")
        let session = session(try policy("--connectivity", "ignore", "--attempts", "2", "--backoff", "constant:1s"), Self.fails(1))
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 1 && outcome.summary.charged == 2)
        #expect(
            said.lines.withLock(\.self) == [
                "attempt 1 failed: exit code 1", "next attempt in 1s", "attempt 2 failed: exit code 1",
                "giving up after 2 attempts: no more are allowed",
            ])
    }

    @Test func itWaitsForAllThatIsToBeReached() async throws {
        let session = session(try policy("--deadline", "5s"), to: [.internet, try nowhere()]) {}
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 124 && outcome.summary.attempts == 0)
        let lines = said.lines.withLock(\.self)
        #expect(lines.first?.hasPrefix("no path to 2001:db8::1 (") == true && lines.first?.hasSuffix("): waiting for it") == true)
        #expect(lines.last == "giving up before the first attempt: the deadline has passed")
    }

    @Test(arguments: ["accelerate", "ignore"]) func whoDoesNotWaitWaitsForNothing(rule: String) async throws {
        let session = session(try policy("--connectivity", rule, "--deadline", "5s"), to: [.internet, try nowhere()]) {}
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 0 && outcome.summary.attempts == 1)
    }

    @Test func whatTheDeadlineCutHasNotFailed() async throws {
        let session = session(try policy("--deadline", "5s"), Self.isTerminated)
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 124 && outcome.summary.attempts == 1)
        #expect(said.lines.withLock(\.self) == ["giving up after 1 attempt: the deadline has passed"])
    }

    @Test func anAttemptThatTakesTooLongIsTriedAgain() async throws {
        let session = session(
            try policy("--attempt-timeout", "5s", "--attempts", "2", "--backoff", "constant:1s"), Self.isTerminated)
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 124 && outcome.summary.charged == 2)
        #expect(said.lines.withLock(\.first) == "attempt 1 failed: it took too long")
    }

    @Test func aShortageIsNoFailureOfTheCommand() async throws {
        let failures = Mutex([EAGAIN, EAGAIN, ENOMEM, ETXTBSY])
        let session = session(try policy("--attempts", "1")) { () async throws(ChildFailure) in
            let next = failures.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            if let next { throw ChildFailure(cause: .notStarted("make", next)) }
        }
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 0 && outcome.summary.attempts == 1 && outcome.summary.charged == 0)
        #expect(
            said.lines.withLock(\.self) == [
                "attempt 1: make cannot be started now: Resource temporarily unavailable (errno 11); trying again each second",
                "attempt 1: make cannot be started now: Cannot allocate memory (errno 12); trying again each second",
                "attempt 1: make cannot be started now: Text file busy (errno 26); trying again each second",
            ])
    }

    @Test func theDeadlineEndsTheWaitForTheStart() async throws {
        let session = session(try policy("--deadline", "5s")) { () async throws(ChildFailure) in
            throw ChildFailure(cause: .notStarted("make", EAGAIN))
        }
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 124 && outcome.summary.attempts == 1)
    }

    @Test func aShortageDuringAnOutageWaitsForTheNetwork() async throws {
        let starts = Mutex(0)
        let session = session(try policy("--attempts", "1")) { [network] () async throws(ChildFailure) in
            let isFirst = starts.withLock { starts in
                starts += 1
                return starts == 1
            }
            guard isFirst else { return }
            try? network.pull("eth0")
            throw ChildFailure(cause: .notStarted("make", EAGAIN))
        }
        let running = Task { await session.run() }
        while said.lines.withLock(\.isEmpty) { await Task.yield() }
        _ = try await clock.nextSleep()
        clock.advance(by: .seconds(60))
        while !said.lines.withLock({ $0.contains { $0.hasSuffix("waiting for it") } }) { await Task.yield() }
        #expect(starts.withLock(\.self) == 1)
        try network.plug("eth0")
        let outcome = await running.value
        #expect(outcome.code == 0 && outcome.summary.attempts == 2 && outcome.summary.charged == 0)
    }

    @Test func aReconnectIsTimedFromWhenAllIsThere() async throws {
        try network.pull("eth0")
        let session = session(try policy("--attempts", "1"), to: [.internet, try nowhere()]) {}
        let running = Task { await session.run() }
        while said.lines.withLock(\.isEmpty) { await Task.yield() }
        try network.plug("eth0")
        clock.advance(by: .seconds(60))
        try network.addAddress("eth0", "2001:db8:1::10/64", skipsDetection: true)
        try network.addRoute(to: "::/0", via: "2001:db8:1::1", dev: "eth0")
        #expect(await running.value.summary.reconnectToAttempt == .zero)
    }

    @Test func theDeadlineEndsItWith124() async throws {
        try network.pull("eth0")
        let session = session(try policy("--deadline", "5s")) {}
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 124 && outcome.summary.attempts == 0 && outcome.summary.waited == .seconds(5))
    }

    @Test func theDeadlineEndsItWith124EvenAfterFailures() async throws {
        let session = session(try policy("--deadline", "5s", "--backoff", "constant:2s"), Self.fails(1))
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 124 && outcome.summary.charged >= 1)
    }

    @Test(arguments: [126, 127] as [Int32]) func whatCannotBeExecutedIsNotTriedAgain(code: Int32) async throws {
        let session = session(try policy(), Self.fails(code))
        let outcome = await session.run()
        #expect(outcome.code == code && outcome.summary.attempts == 1)
    }

    @Test func chosenCodesAreFinal() async throws {
        let session = session(try policy("--give-up-on", "5-7"), Self.fails(6))
        let outcome = await session.run()
        #expect(outcome.code == 6 && outcome.summary.attempts == 1)
        #expect(said.lines.withLock(\.last) == "giving up after 1 attempt: another one would fail the same way")
    }

    @Test func whoWasToldToEndIsNotTriedAgainAndNobodyIsToldWhy() async throws {
        let session = session(try policy()) { () async throws(ChildFailure) in
            throw ChildFailure(cause: .signaled(15), wasToldToEnd: true)
        }
        let outcome = await session.run()
        #expect(outcome.code == 143 && outcome.summary.attempts == 1 && said.lines.withLock(\.self).isEmpty)
    }

    @Test func whoSeesNothingTriesAllTheSame() async throws {
        network.stop(throwing: ReachabilityError(.netlinkUnavailable, errno: 1, operation: "socket(AF_NETLINK)"))
        let session = session(
            try policy("--attempts", "2", "--backoff", "constant:1s"), to: [.internet, try nowhere()], Self.fails(3))
        let outcome = await end(Task { await session.run() })
        #expect(outcome.code == 3 && outcome.summary.attempts == 2 && outcome.summary.startedOffline == 0)
        let lines = said.lines.withLock(\.self)
        #expect(lines.count { $0.contains("without waiting for the network") } == 1)
        #expect(lines.contains("next attempt in 1s"))
    }
}
