import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct ReplayTests {
    @Test(arguments: 0..<30) func replayMatchesRecordedTransitions(_ seed: UInt64) async throws {
        let (live, recording) = try await RandomSession(seed: seed).run()
        let network = try RecordedNetwork(recording)
        #expect(network.scopes == RandomSession.scopes)
        let replayed = try await listen(to: network, network.scopes)
        #expect(live.transitions.allSatisfy { $0.count > 1 }, "seed \(seed): nothing happened")
        #expect(replayed == live, "seed \(seed)")
        #expect(network.report.isComplete && network.report.malformed == 0, "seed \(seed)")
    }

    /// The fixture has format 1: one lookup for each destination, without a source.
    @Test func formatOneFileReplays() async throws {
        let folder = "\(#filePath)".split(separator: "/").dropLast().joined(separator: "/")
        let network = try RecordedNetwork(contentsOf: "/\(folder)/Fixtures/format1.reach")
        #expect(network.scopes == [.address(ip("203.0.113.9"))] && network.hasAnswers)
        let monitor = ReachabilityMonitor(network)
        let stream = monitor.transitions(to: network.scopes[0], raw: true)
        try await monitor.run()
        var texts: [String] = []
        for await transition in stream {
            texts.append("\(transition.epoch) \(transition.current) (\(transition.cause))")
        }
        let way = "satisfied via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4"
        #expect(
            texts == [
                "1 \(way) (watching began)", "1 unsatisfied: no carrier (eth0 lost carrier)", "2 \(way) (eth0 got carrier)",
                "2 unsatisfied: a route says unreachable (route 203.0.113.0/24 was set)",
                "2 unsatisfied: no route (route 203.0.113.0/24 was removed)",
                "3 \(way) (route default via 192.0.2.1 dev eth0 was set)", "3 unknown (the monitor ended)",
            ])
        #expect(network.report.isComplete && network.report.malformed == 0 && monitor.health.failedRequests == 0)
    }

    @Test func unansweredHostStaysUnansweredInReplay() async throws {
        let host = Scope.host("nas.example")
        let network = SimulatedNetwork.online()
        network.setNameServers(.silent)
        let collector = Recorder<UInt8>()
        let live = try await listen(to: NetworkRecorder(network, scopes: [host]) { collector.record(contentsOf: $0) }, [host]) {
            _ in
            try await network.untilRunning()
            network.clock.advance(by: .seconds(30))
            network.stop()
        }
        let replayed = try await listen(to: RecordedNetwork(collector.value), [host])
        #expect(replayed == live && live.transitions[0][0].contains("noAnswer"))
    }

    @Test func truncatedRecordingReplaysItsBeginning() async throws {
        let (live, recording) = try await RandomSession(seed: 3).run(12)
        for length in stride(from: RecordingFormat.headerSize, through: recording.count, by: 1231) {
            let network = try RecordedNetwork(Array(recording.prefix(length)))
            let replayed = try await listen(to: network, RandomSession.scopes)
            let isBeginning = zip(live.withoutEnd, replayed.withoutEnd).allSatisfy { $0.starts(with: $1) }
            try #require(isBeginning, "\(length) of \(recording.count) bytes")
        }
    }

    @Test(arguments: 0..<60) func monitorSurvivesDamagedRecordings(_ seed: UInt64) async throws {
        var random = RandomEntries(seed: seed)
        let network = try RecordedNetwork(file(random.entries(60)))
        _ = try await listen(to: network, [.internet, random.scope()])
        #expect(network.report.malformed == 0, "seed \(seed)")
    }

    @Test func replayFollowsRecordedPace() async throws {
        let entries = [100, 102, 110].map { second in
            RecordingEntry(.batch(.init(now: .seconds(second), wallTime: .zero)), now: .seconds(second), wallTime: .zero)
        }
        let clock = ManualClock()
        let network = try RecordedNetwork(file(entries), pace: .following(clock, speed: 2))
        let times = Recorder<Duration>()
        async let running: Void = network.run { batch in
            times.record(batch.now.sinceBoot)
            return nil
        }
        for (sleep, delivered) in [(1, 1), (5, 2)] {
            #expect(try await clock.nextSleep().offset == .seconds(sleep))
            #expect(times.value.count == delivered)
            clock.advance(to: .init(offset: .seconds(sleep)))
        }
        try await running
        #expect(times.value == [.seconds(100), .seconds(102), .seconds(110)])
    }

    @Test(arguments: [0, -1, .nan, .infinity, 1e-300] as [Double]) func invalidSpeedIsClamped(_ speed: Double) async throws {
        let times: [Duration] = [.zero, .nanoseconds(Int64.max), .nanoseconds(Int64.min)]
        let entries = times.map {
            RecordingEntry(.batch(.init(now: BootInstant(sinceBoot: $0), wallTime: .zero)), now: $0, wallTime: .zero)
        }
        let clock = ManualClock()
        let network = try RecordedNetwork(file(entries), pace: .following(clock, speed: speed))
        async let running: Void = network.run { _ in nil }
        let due = try await clock.nextSleep()
        clock.advance(to: due)
        try await running
        #expect(network.report.batches == 3)
    }

    @Test func recordedErrorEndsReplay() async throws {
        let network = SimulatedNetwork.online()
        let collector = Recorder<UInt8>()
        let error = ReachabilityError(.requestFailed, errno: 105, operation: "recvmsg(netlink)")
        _ = try await listen(to: NetworkRecorder(network) { collector.record(contentsOf: $0) }) { _ in
            try await network.untilRunning()
            network.stop(throwing: error)
        }
        let recorded = try RecordedNetwork(collector.value)
        await #expect(throws: error) { try await recorded.run { _ in nil } }
        #expect(recorded.report.failure == error)
    }

    @Test func replayCanBeCancelled() async throws {
        let entries = [0, 1000].map { second in
            RecordingEntry(.batch(.init(now: .seconds(second), wallTime: .zero)), now: .seconds(second), wallTime: .zero)
        }
        let clock = ManualClock()
        let network = try RecordedNetwork(file(entries), pace: .following(clock))
        let running = Task { try await network.run { _ in nil } }
        _ = try await clock.nextSleep()
        running.cancel()
        await #expect(throws: CancellationError.self) { try await running.value }
    }

    @Test func recordingIsReplayedOnce() async throws {
        let network = try RecordedNetwork(file([]))
        try await network.run { _ in nil }
        let error = await #expect(throws: ReachabilityError.self) { try await network.run { _ in nil } }
        #expect(error?.code == .alreadyRun)
    }

    @Test func unrecordedRequestHasNoAnswer() async throws {
        let (_, recording) = try await RandomSession(seed: 1).run(3)
        let network = try RecordedNetwork(recording)
        let before = #expect(throws: ReachabilityError.self) { _ = try network.interfaces() }
        #expect(before?.code == .notRecorded)
        try await network.run { _ in nil }
        #expect(throws: Never.self) { _ = try network.interfaces() }
        let error = #expect(throws: ReachabilityError.self) { _ = try network.route(to: RouteQuery(to: ip("192.0.2.77"))) }
        #expect(error?.code == .notRecorded && error?.description.contains("next: ask only what was asked") == true)
    }

    @Test func gapStartsResync() async throws {
        let link = NetworkInterface.cable
        func batch(_ second: Int) -> RecordingEntry {
            RecordingEntry(.batch(.init(now: .seconds(second), wallTime: .zero)), now: .seconds(second), wallTime: .zero)
        }
        let dump = RecordingEntry(.interfaces(.init(.success([link]), isForBatch: true)), now: .zero, wallTime: .zero)
        let gap = RecordingEntry(.gap(lost: 5), now: .zero, wallTime: .zero)
        let network = try RecordedNetwork(file([batch(0), dump, gap, batch(1), batch(2)]))
        let events = Recorder<[NetworkEvent]>()
        try await network.run { batch in
            events.record(batch.events)
            return nil
        }
        #expect(events.value == [[], [.overrun], []] && network.report.lost == 5)
    }
}
