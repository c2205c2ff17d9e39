import Foundation
import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Recordings of the real kernel.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct RecordingTests {
    /// Returns all fields of a transition.
    private static func text(_ transition: Transition) -> String {
        "\(String(reflecting: transition)) \(transition.cause.kind) \(transition.cause.interface as Any)"
    }

    private static let scopes = { () -> [Scope] in
        var bound = Scope.internet
        bound.interface = "cable1"
        return [.internet, .address(IPAddress("198.51.100.7") ?? .init(family: .ipv4, value: 0)), bound]
    }()

    private static var configuration: ReachabilityMonitor.Configuration {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.bufferedTransitions = .max
        return configuration
    }

    private static func streams(of monitor: ReachabilityMonitor) -> [AsyncStream<Transition>] {
        scopes.flatMap { [monitor.transitions(to: $0, raw: true), monitor.transitions(to: $0)] }
    }

    private static func texts(_ streams: [AsyncStream<Transition>]) async -> [[String]] {
        var allTexts: [[String]] = []
        for stream in streams {
            var texts: [String] = []
            for await transition in stream { texts.append(text(transition)) }
            allTexts.append(texts)
        }
        return allTexts
    }

    @Test func replayMatchesRecordedCable() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let bytes = Recorder<UInt8>()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let recorder = NetworkRecorder(kernel, scopes: Self.scopes) { bytes.record(contentsOf: $0) }
        let monitor = ReachabilityMonitor(recorder, configuration: Self.configuration)
        let live = Self.streams(of: monitor)
        let running = Task { try await monitor.run() }
        let watcher = Watcher(monitor, .internet, network.near)
        try await watcher.start()
        // Other callers make requests during the next step. The bound keeps them from delaying other tests.
        let changes = monitor.transitions(to: .internet, raw: true)
        let requesting = Task {
            for await _ in changes {
                for _ in 0..<100 where !Task.isCancelled {
                    _ = try monitor.path(to: .internet)
                    // Lets the other tests have this thread.
                    await Task.yield()
                }
            }
        }
        try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull() }
        try await watcher.expect(.satisfied, delay: Watcher.carrierDelay) { try await network.plug() }
        try await watcher.expect(.unsatisfied, .adminDown) { try await network.near.ip("link set cable0 down") }
        try await watcher.expect(.satisfied) { try await network.addIPv4(1, metric: 200) }
        try await watcher.expect(interface: "cable0") { try await network.addIPv4WithoutAddress(0, metric: 50) }
        try await watcher.expect(.unsatisfied, .prohibited) { try await network.near.ip("route add prohibit default metric 1") }
        try await watcher.expect(.satisfied) { try await network.near.ip("route del prohibit default metric 1") }
        try await watcher.expect(kinds: .interfaceChanged) { try await network.near.ip("link set cable0 name patch0") }
        try await network.near.ip("addr flush dev patch0 scope global")
        // Perhaps after a moment without a usable source: the kernel announces the removal before it flushes the routes.
        while watcher.path.interface?.name != "cable1" { try await watcher.next() }
        try await watcher.expect(.unsatisfied, .noAddress) { try await network.near.ip("addr flush dev cable1 scope global") }
        requesting.cancel()
        _ = await requesting.result
        running.cancel()
        try await running.value
        let liveTexts = await Self.texts(live)

        let recorded = try RecordedNetwork(bytes.value)
        let replayed = ReachabilityMonitor(recorded, configuration: Self.configuration)
        let streams = Self.streams(of: replayed)
        try await replayed.run()
        let replayedTexts = await Self.texts(streams)
        #expect(liveTexts[0].count >= 10 && liveTexts.allSatisfy { $0.count >= 2 })
        #expect(replayedTexts == liveTexts)
        #expect(replayed.health == monitor.health)
        #expect(recorded.report.isComplete && recorded.report.malformed == 0 && recorded.report.lost == 0)
        #expect(recorder.progress.entriesLost == 0 && recorder.progress.bytesWritten == bytes.value.count)
    }

    @Test func replayCommandPrintsRecordedTransitions() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let file = "/tmp/\(network.near.name).reach"
        defer { unlink(file) }
        let watch = try WatchCommand(network, "--raw")
        _ = try await watch.next()
        let record = try Child([WatchCommand.path, "record", file, "--netns", network.near.name])
        let replay = [WatchCommand.path, "replay", "--raw", "--format", "json", file]
        // A recording can be replayed while it grows.
        func waitForRecord(of text: String) async throws {
            while try await !Child.run(replay, allowFailure: true).output.contains(text) {}
        }
        try await waitForRecord(of: #""epoch":1"#)
        try await watch.expect("unsatisfied", "adminDown") { try await network.near.ip("link set cable0 down") }
        try await watch.expect("satisfied") { try await network.addIPv4WithoutAddress(0, metric: 100) }
        try await waitForRecord(of: #""epoch":2"#)
        record.signal(SIGTERM)
        #expect(await record.exitCode() == 143)
        let replayed = try await Child.run(replay).output.split(separator: "\n").map {
            try JSONDecoder().decode(WatchCommand.Line.self, from: Data($0.utf8))
        }
        #expect(replayed.first?.event == "baseline" && replayed.first?.path.status == "satisfied")
        #expect(replayed.contains { $0.path.reason == "adminDown" && $0.kinds == ["offline"] })
        #expect(replayed.last?.path.status == "satisfied" && replayed.last?.epoch == 2)
        watch.child.signal(SIGTERM)
        _ = await watch.child.exitCode()
    }

    @Test func rtmonFileIsReadToItsEnd() async throws {
        let network = try await CabledNetwork()
        let file = "/tmp/\(network.near.name).rtmon"
        defer { unlink(file) }
        let rtmon = try Child(["ip", "netns", "exec", network.near.name, "rtmon", "file", file])
        func hasWritten(_ name: String) -> Bool {
            (try? Data(contentsOf: URL(fileURLWithPath: file)))?.range(of: Data(name.utf8)) != nil
        }
        // It writes the links first, and drops the events that come meanwhile; it flushes after each message.
        var (probes, name) = (0, "cable1")
        repeat {
            probes += 1
            try await network.near.ip("link set \(name) name probe\(probes)")
            name = "probe\(probes)"
        } while !hasWritten("probe")
        try await network.addIPv4()
        try await network.near.ip("link set \(name) name marker0")
        while !hasWritten("marker0") {}
        // It may have inherited a mask that blocks any other signal.
        rtmon.signal(SIGKILL)
        _ = await rtmon.exitCode()

        let recorded = try RecordedNetwork(contentsOf: file)
        let batches = Recorder<NetworkEventBatch>()
        try await recorded.run { batch in
            batches.record(batch)
            return nil
        }
        let events = batches.value.flatMap(\.events)
        let address = NetworkInterface.Address(try #require(IPAddress("192.0.2.10")), prefixLength: 24)
        let cable = try #require(try recorded.interfaces().first { $0.name == "cable0" })
        #expect(events.contains(.address(address, interface: cable.index)) && cable.isUp && cable.addresses.contains(address))
        #expect(events.contains { if case .route(let change) = $0.payload { change.destination == .all(.ipv4) } else { false } })
        #expect(try recorded.interfaces().contains { $0.name == "marker0" })
        // Each message is an event, or skipped and counted.
        let data = try Data(contentsOf: URL(fileURLWithPath: file))
        #expect(events.count + recorded.report.skipped == Self.messages(in: data) && recorded.report.malformed == 0)
        #expect(!recorded.report.isTorn && !recorded.hasAnswers)

        let replay = try await Child.run([WatchCommand.path, "replay", file])
        #expect(
            replay.output.contains("192.0.2.10/24 was added to cable0") && replay.output.contains("holds events but no verdicts"))
    }

    /// Returns the number of messages between the timestamps.
    private static func messages(in data: Data) -> Int {
        var (count, offset) = (0, 0)
        let bytes = Array(data)
        while offset + 16 <= bytes.count {
            let length = bytes[offset..<offset + 4].reversed().reduce(0) { $0 << 8 | Int($1) }
            if bytes[offset + 4] != 15 || bytes[offset + 5] != 0 { count += 1 }
            offset += (length + 3) & ~3
        }
        return count
    }
}
