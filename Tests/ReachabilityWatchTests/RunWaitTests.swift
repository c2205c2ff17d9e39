import ArgumentParser
import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

@testable import CommandKit
@testable import reachability_watch

struct RunWaitTests {
    private static func delay(_ time: Duration, limit: Int? = nil, charged: Int = 2, timeLeft: Duration? = nil) -> RunWait {
        RunWait(kind: .delay(time), attempt: 3, charged: charged, limit: limit, timeLeft: timeLeft)
    }

    private static func event(timeLeft: Duration? = nil) -> RunWait {
        RunWait(kind: .event("waits for the network"), attempt: 1, charged: 0, limit: nil, timeLeft: timeLeft)
    }

    @Test(
        arguments: [
            (delay(.seconds(12)), .zero, "next attempt in 12s (attempt 3)"),
            (delay(.milliseconds(11_001)), .zero, "next attempt in 12s (attempt 3)"),
            (delay(.milliseconds(1)), .zero, "next attempt in 1s (attempt 3)"),
            (delay(.zero), .zero, "next attempt now (attempt 3)"),
            (delay(.seconds(-1), timeLeft: .seconds(9)), .zero, "next attempt now (attempt 3); gives up in 9s"),
            (delay(.zero, timeLeft: .zero), .zero, "gives up now"),
            (delay(.seconds(9), timeLeft: .seconds(-1)), .zero, "gives up now"),
            (event(timeLeft: .zero), .seconds(125), "waits for the network; 2m 5s so far; gives up now"),
            (delay(.seconds(12), limit: 5), .zero, "next attempt in 12s (attempt 3 of 5)"),
            // One of the two attempts was broken off by an outage.
            (delay(.seconds(12), limit: 5, charged: 1), .zero, "next attempt in 12s (attempt 3, 4 left)"),
            (delay(.seconds(3660) + .milliseconds(1)), .zero, "next attempt in 1h 2m (attempt 3)"),
            (delay(.seconds(12), timeLeft: .seconds(240)), .zero, "next attempt in 12s (attempt 3); gives up in 4m"),
            (event(), .seconds(125), "waits for the network; 2m 5s so far"),
            (event(timeLeft: .seconds(75)), .milliseconds(1999), "waits for the network; 1s so far; gives up in 1m 15s"),
            (delay(.longest), .zero, "next attempt in 36500d (attempt 3)"),
        ] as [(RunWait, Duration, String)])
    func theLineSaysUntilWhen(_ wait: RunWait, _ elapsed: Duration, _ expected: String) {
        #expect(wait.text(after: elapsed) == expected)
    }

    @Test(
        arguments: [
            (delay(.milliseconds(11_400)), .zero, .milliseconds(400)), (delay(.seconds(11)), .zero, .seconds(1)),
            (delay(.seconds(3600)), .zero, .seconds(1)), (delay(.milliseconds(3_600_500)), .zero, .milliseconds(500)),
            (delay(.seconds(3660)), .zero, .seconds(60)), (delay(.zero), .zero, .seconds(1)),
            (event(), .milliseconds(2400), .milliseconds(600)), (event(), .seconds(7200), .seconds(60)),
            (event(timeLeft: .milliseconds(5300)), .seconds(7200), .milliseconds(300)),
        ] as [(RunWait, Duration, Duration)])
    func theLineChangesWithItsText(_ wait: RunWait, _ elapsed: Duration, _ expected: Duration) {
        #expect(wait.untilChange(after: elapsed) == expected)
    }

    @Test func shortWaitsHaveNoLine() {
        var progress = WaitProgress(isLine: true)
        let first = progress.update(Self.event(), at: .seconds(10))
        #expect(first.text == nil && first.next == .milliseconds(200))
        let second = progress.update(Self.event(), at: .milliseconds(10_200))
        #expect(second.text == "waits for the network; 0s so far" && second.next == .milliseconds(800))
        let running = progress.update(nil, at: .seconds(11))
        #expect(running.text == nil && running.next == nil)
        let next = progress.update(Self.event(), at: .seconds(20))
        #expect(next.text == nil && next.next == .milliseconds(200), "the next wait begins")
    }

    @Test func messagesComeAtGrowingTimes() {
        var progress = WaitProgress(isLine: false)
        var (now, times): (Duration, [Duration]) = (.zero, [])
        while now < .seconds(4 * 3600) {
            let (text, next) = progress.update(Self.event(), at: now)
            if let text {
                times.append(now)
                #expect(text == "waits for the network; \(durationText(now)) so far")
            }
            now += next ?? .longest
        }
        #expect(times == [60, 300, 900, 3600, 7200, 10_800].map { .seconds($0) })
    }

    @Test func aSuspensionLeavesOneMessage() {
        var progress = WaitProgress(isLine: false)
        _ = progress.update(Self.event(), at: .zero)
        let (text, next) = progress.update(Self.event(), at: .seconds(5000))
        #expect(text == "waits for the network; 1h 23m so far" && next == .seconds(2200))
        #expect(progress.update(Self.event(), at: .seconds(5001)).text == nil)
    }
}

/// The waits of `run` on a simulated network.
@Suite(.timeLimit(.minutes(10))) struct WaitDisplayTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let shown = Rendezvous<[String?]>([])
    private let said = Rendezvous<[String]>([])

    init() { network = .online(clock: clock) }

    private func session(
        hasLine: Bool, _ words: String..., command: @escaping @Sendable () async throws(ChildFailure) -> Void
    ) throws -> RunSession {
        let line = LineDisplay(columns: { 80 }, show: { [shown] line in shown.change { $0.append(line?.plain) } })
        let say: @Sendable (String) -> Void = { [said] line in said.change { $0.append(line) } }
        let display = WaitDisplay(hasLine ? line : nil, on: clock, say)
        return RunSession(
            monitor: ReachabilityMonitor(network), scopes: [.internet],
            policy: try RunCommand.parse(["--jitter", "none"] + words + ["--", "true"]).retry.policy, clock: clock,
            say: { await display.say($0) }, display: display, command: command)
    }

    /// Advances the clock from change to change until a line appears.
    private func untilShown(_ text: String) async throws {
        while shown.value.last != .some(text) {
            let next = try await clock.nextSleep()
            let count = shown.value.count
            clock.advance(to: next)
            try await shown.wait { $0.count > count }
        }
    }

    @Test func theLineNamesTheMissingPathAndVanishes() async throws {
        try network.pull("eth0")
        let linesAtStart = Rendezvous<[String?]>([])
        let session = try session(hasLine: true, "--deadline", "1h") { [shown] in
            linesAtStart.change { $0 = [shown.value.last ?? nil] }
        }
        let running = Task { await session.run() }
        try await said.wait { $0 == ["no network (eth0 has no carrier): waiting for it"] }
        try await untilShown("waits for the network: eth0 has no carrier (noCarrier); 1s so far; gives up in 59m 59s")
        try network.plug("eth0")
        #expect(await running.value.code == 0)
        #expect(linesAtStart.value == [nil], "the terminal is the command's")
        #expect(shown.value.last == .some(nil))
    }

    @Test func theLineCountsDown() async throws {
        let session = try session(hasLine: true, "--backoff", "constant:10s", "--attempts", "2") { () async throws(ChildFailure) in
            throw ChildFailure(cause: .exited(1))
        }
        let running = Task { await session.run() }
        try await said.wait { $0.contains("next attempt in 10s, sooner if the network reconnects") }
        try await untilShown("next attempt in 8s (attempt 2 of 2)")
        running.cancel()
        #expect(await running.value.code == 1)
        #expect(shown.value.last == .some(nil))
    }

    @Test func longWaitsAreReportedWithoutATerminal() async throws {
        try network.pull("eth0")
        let session = try session(hasLine: false) {}
        let running = Task { await session.run() }
        try await said.wait { $0 == ["no network (eth0 has no carrier): waiting for it"] }
        var expected = said.value
        for (minutes, text) in [(1, "1m"), (5, "5m"), (15, "15m"), (60, "1h"), (120, "2h")] {
            clock.advance(to: try await clock.nextSleep())
            expected.append("waits for the network: eth0 has no carrier (noCarrier); \(text) so far")
            try await said.wait { [count = expected.count] in $0.count == count }
            #expect(said.value == expected && clock.now.offset == .seconds(minutes * 60))
        }
        try network.plug("eth0")
        #expect(await running.value.code == 0)
    }
}
