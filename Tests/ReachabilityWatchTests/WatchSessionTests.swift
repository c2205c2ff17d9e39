import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit
@testable import reachability_watch

@Suite(.timeLimit(.minutes(10)))
struct WatchSessionTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let notes = LineCollector()

    init() { network = .online(clock: clock) }

    private func session(_ output: LineCollector, scopes: [Scope] = [.internet], buffer: Int = 64) -> WatchSession {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        configuration.bufferedTransitions = buffer
        return WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration), scopes: scopes, style: TextStyle(), clock: clock,
            output: output, notes: notes)
    }

    @Test func baselineThenChangesUpToTheCount() async throws {
        let output = LineCollector()
        var session = session(output)
        session.count = 3
        async let end = session.run()
        #expect(await output.next().contains("● online   via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4"))
        clock.advance(by: .seconds(1))
        try network.pull("eth0")
        #expect(await output.next().contains("○ offline  after at least 1s: no carrier (eth0 lost carrier)"))
        clock.advance(by: .milliseconds(4250))
        try network.plug("eth0")
        #expect(await output.next().contains("● online   after 4.2s: via eth0"))
        #expect(await end == .done)
        #expect(output.lines.count == 3)
        #expect(notes.lines.isEmpty)
    }

    @Test func baselinesComeInTheOrderOfScopes() async throws {
        let output = LineCollector()
        let addresses = (1...9).map { Samples.address("198.51.100.\($0)") }
        var session = session(output, scopes: addresses.map(Scope.address))
        session.format = .json
        session.count = 10
        async let end = session.run()
        for address in addresses {
            let line = await output.next()
            #expect(line.hasPrefix(#"{"event":"baseline","sequence":0,"#) && line.contains(#""scope":"\#(address)""#))
        }
        try network.addRoute(to: "198.51.100.9/32", type: .prohibit)
        let line = await output.next()
        #expect(line.contains(#""event":"transition""#) && line.contains(#""scope":"198.51.100.9""#))
        #expect(line.contains(#""reason":"prohibited""#))
        #expect(await end == .done)
    }

    @Test func shortLossesNeedRaw() async throws {
        let (damped, raw) = (LineCollector(), LineCollector())
        var sessions = [damped, raw].map {
            WatchSession(monitor: ReachabilityMonitor(network), scopes: [.internet], count: 2, output: $0, notes: notes)
        }
        sessions[1].isRaw = true
        for (session, output) in zip(sessions, [damped, raw]) {
            async let end = session.run()
            _ = await output.next()
            try network.pull("eth0")
            try network.plug("eth0")
            _ = await end
        }
        #expect(damped.lines.last?.contains("● online   lost and regained: via eth0") == true)
        #expect(raw.lines.last?.contains("○ offline  after at least 0ms: no carrier") == true)
    }

    @Test func theTimeLimitEndsWatch() async throws {
        let output = LineCollector()
        var session = session(output)
        session.timeLimit = .seconds(5)
        async let end = session.run()
        _ = await output.next()
        #expect(try await clock.nextSleep().offset == .seconds(5))
        clock.advance(by: .seconds(5))
        #expect(await end == .done)
        #expect(output.lines.count == 1)
    }

    @Test(arguments: [OutputFailure.readerGone, .refused(errno: 28)])
    func aFailedOutputEndsWatch(_ failure: OutputFailure) async {
        let output = LineCollector { _ throws(OutputFailure) in throw failure }
        #expect(await session(output).run() == .outputFailed(failure))
    }

    @Test func theMonitorsErrorEndsWatch() async {
        let output = LineCollector()
        let session = session(output)
        let error = ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)")
        async let end = session.run()
        _ = await output.next()
        network.stop(throwing: error)
        #expect(await end == .monitorEnded(error))
        #expect(output.lines.last?.contains("◌ unknown") == true)
    }

    @Test func droppedTransitionsAreNoted() async {
        let output = LineCollector { [network] count throws(OutputFailure) in
            guard count == 0 else { return }
            // Three changes come during the first write, and the stream keeps one.
            try? network.pull("eth0")
            try? network.plug("eth0")
            try? network.pull("eth0")
        }
        var session = session(output, buffer: 1)
        session.count = 2
        session.outputHasReader = true
        #expect(await session.run() == .done)
        #expect(output.lines.last?.contains("○ offline  no carrier") == true)
        #expect(notes.lines == ["reachability-watch: 2 transitions of internet dropped: \(DropNoticeTests.slowReader)"])
    }
}

struct SequenceCheckTests {
    private func transition(_ sequence: UInt64) -> Transition {
        Samples.transition(sequence, from: Samples.offline(), to: Samples.online(), .online, Samples.cableBack)
    }

    @Test func gapsAreCounted() {
        var check = SequenceCheck()
        #expect(check.missed(before: Samples.baseline(Samples.offline())) == 0)
        #expect(check.missed(before: transition(1)) == 0)
        #expect(check.missed(before: transition(5)) == 3)
        #expect(check.missed(before: transition(6)) == 0)
    }

    @Test func theFirstTransitionHasNoGap() {
        var check = SequenceCheck()
        #expect(check.missed(before: transition(.max)) == 0)
        #expect(check.missed(before: transition(1)) == 0)
    }
}

struct DropNoticeTests {
    static let slowReader = "the reader of standard output is too slow; next: write to a file"
    private static let slowWriter = "they came faster than lines could be written; next: watch fewer destinations"

    @Test func onlyExistingReadersAreBlamed() {
        var pipe = DropNotice(hasReader: true)
        #expect(
            pipe.dropped(1, of: "internet", now: .zero) == ["1 transition of internet dropped: \(Self.slowReader)"])
        var terminal = DropNotice(hasReader: false)
        #expect(
            terminal.dropped(2, of: "internet", now: .zero) == ["2 transitions of internet dropped: \(Self.slowWriter)"])
    }

    @Test func noticesComeAtMostOnceASecond() {
        var notice = DropNotice(hasReader: true)
        #expect(notice.dropped(1, of: "a", now: .seconds(10)).count == 1)
        #expect(notice.dropped(2, of: "a", now: .milliseconds(10_500)).isEmpty)
        #expect(notice.dropped(3, of: "b", now: .milliseconds(10_999)).isEmpty)
        let lines = notice.dropped(4, of: "a", now: .milliseconds(11_000))
        #expect(lines.count == 2 && lines[0].hasPrefix("6 transitions of a ") && lines[1].hasPrefix("3 transitions of b "))
        #expect(notice.dropped(.max, of: "a", now: .milliseconds(11_100)).isEmpty)
        #expect(notice.dropped(.max, of: "a", now: .milliseconds(11_200)).isEmpty)
        #expect(notice.rest().map { $0.hasPrefix("\(UInt64.max) ") } == [true])
        #expect(notice.rest().isEmpty)
    }
}
