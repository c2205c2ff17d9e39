import Dispatch
import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct NetworkRecorderTests {
    private struct DiskFull: Error {}

    /// A sink that blocks in its first call.
    private final class SlowSink: Sendable {
        /// The number of its calls, which come one after the other.
        let calls = Counter()
        let collector = Recorder<UInt8>()
        private let isReleased = DispatchSemaphore(value: 0)

        func take(_ bytes: [UInt8]) {
            calls.add()
            if calls.value == 1 { isReleased.wait() }
            collector.record(contentsOf: bytes)
        }

        /// Lets the first call return.
        func release() { isReleased.signal() }
    }

    @Test func slowSinkLeavesAMarkedGap() async throws {
        let sink = SlowSink()
        defer { sink.release() }
        let network = SimulatedNetwork.online()
        // Their names make the first call a long one.
        let scopes = (0..<64).map { Scope.address(ip("192.0.2.\($0)")) }
        let recorder = NetworkRecorder(network, scopes: scopes, bufferLimit: 4000) { sink.take($0) }
        let live = try await listen(to: recorder) { monitor in
            try await network.untilRunning()
            try await sink.calls.wait { $0 == 1 }
            for _ in 0..<40 {
                try network.pull("eth0")
                try network.plug("eth0")
            }
            // All of it was published while the first call of the sink still blocks.
            #expect(monitor.condition(for: .internet).state.epoch == 41 && recorder.progress.bytesWritten == 0)
            #expect(recorder.progress.entriesLost > 0)
            sink.release()
            // The buffer has room again, at least for as many bytes as the first call wrote.
            try await sink.calls.wait { $0 >= 2 }
            network.suspend(for: .seconds(1))
            network.stop()
        }
        let recorded = try RecordedNetwork(sink.collector.value)
        let replayed = try await listen(to: recorded)
        #expect(recorded.report.lost == recorder.progress.entriesLost && recorded.report.isComplete)
        #expect(recorder.progress.bytesWritten == sink.collector.value.count)
        // The beginning and the end are the same.
        #expect(replayed.transitions[0].prefix(2) == live.transitions[0].prefix(2) && replayed != live)
    }

    @Test func failingSinkEndsRecordingOnly() async throws {
        let network = SimulatedNetwork.online()
        let sinkCalls = Rendezvous(0)
        let recorder = NetworkRecorder(network) { _ in
            sinkCalls.change { $0 += 1 }
            throw DiskFull()
        }
        _ = try await listen(to: recorder) { monitor in
            try await network.untilRunning()
            try await sinkCalls.wait { $0 == 1 }
            try network.pull("eth0")
            #expect(!monitor.path.isSatisfied)
            network.stop()
        }
        #expect(recorder.progress.failure is DiskFull && recorder.progress.bytesWritten == 0)
    }

    @Test func recorderThrowsSourceErrors() async throws {
        let network = SimulatedNetwork.online()
        let recorder = NetworkRecorder(network) { _ in }
        network.failNextRequests(2, errno: 12)
        let dump = #expect(throws: ReachabilityError.self) { _ = try recorder.interfaces() }
        let lookup = #expect(throws: ReachabilityError.self) { _ = try recorder.route(to: RouteQuery(to: ip("1.1.1.1"))) }
        #expect(dump?.errno == 12 && lookup?.errno == 12)
    }

    /// A source with all refinements that logs its calls.
    private final class NotedSource: SourceWrapper, FilteringSource, HostAnswering, TaskRunningSource {
        let network = SimulatedNetwork.online()
        let calls = Recorder<String>()

        func wake() {
            calls.record("wake")
            network.wake()
        }
        func watch(_ addresses: Set<IPAddress>) { calls.record("watch \(addresses.sorted { $0.value < $1.value })") }
        func resolve(_ host: String) { calls.record("resolve \(host)") }
        func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
            calls.record("answers \(hosts) \(limit.map { "\($0)" } ?? "-")")
            return hosts.map { _ in .failed(.refused) }
        }
        func runTasks() { calls.record("runTasks") }
    }

    @Test func recorderForwardsEveryCall() async throws {
        let source = NotedSource()
        let recorder = NetworkRecorder(source) { _ in }
        recorder.wake()
        recorder.watch([ip("192.0.2.1")])
        recorder.resolve("nas.example")
        #expect(recorder.answers(for: ["nas.example"], within: .seconds(3)) == [.failed(.refused)])
        recorder.runTasks()
        #expect(
            source.calls.take() == [
                "wake", "watch [192.0.2.1]", "resolve nas.example", "answers [\"nas.example\"] 3.0 seconds", "runTasks",
            ])
        let selected = RouteQuery(to: ip("198.41.0.4"), source: .selected)
        #expect(recorder.routes(to: [selected, selected]) == source.network.routes(to: [selected, selected]))
    }

    @Test func recorderForwardsRefinements() async throws {
        let source = NotedSource()
        let monitor = ReachabilityMonitor(NetworkRecorder(source) { _ in })
        let conditions = [monitor.condition(for: .host("nas.example")), monitor.condition(for: .internet)]
        _ = source.calls.take()
        let running = Task { try? await monitor.run() }
        try await source.network.untilRunning()
        let calls = source.calls.take()
        #expect(
            calls.first?.hasPrefix("watch [1.1.1.1") == true && calls.contains("resolve nas.example") && calls.contains("runTasks"))
        withExtendedLifetime(conditions) {}
        running.cancel()
        await running.value
    }

    @Test func sourceWithoutResolverIsNotCalled() {
        let recorder = NetworkRecorder(SimulatedNetwork.online()) { _ in }
        #expect(recorder.answers(for: ["nas.example"], within: nil) == [.failed(.notFound)])
        let replay = try? NetworkRecorder(RecordedNetwork(RecordingFormat.header)) { _ in }
        #expect(replay?.answers(for: ["nas.example"], within: nil) == [.failed(.notAsked)])
    }

    @Test func recorderRunsOnce() async throws {
        let network = SimulatedNetwork.online()
        let recorder = NetworkRecorder(network) { _ in }
        network.stop()
        try await recorder.run { _ in nil }
        let error = await #expect(throws: ReachabilityError.self) { try await recorder.run { _ in nil } }
        #expect(error?.code == .alreadyRun)
    }

    @Test func sameSessionGivesSameBytes() async throws {
        #expect(try await RandomSession(seed: 9).run(20).recording == RandomSession(seed: 9).run(20).recording)
    }

    @Test func fileIsNeverOverwritten() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/recording"
        let file = try RecordingFile(creating: path)
        try file.write(RecordingFormat.header)
        let error = #expect(throws: ReachabilityError.self) { _ = try RecordingFile(creating: path) }
        #expect(error?.errno == EEXIST && error?.code == .fileFailed)
        #expect(try RecordedNetwork(contentsOf: path).report == RecordingReport())
        let missing = #expect(throws: ReachabilityError.self) { _ = try RecordedNetwork(contentsOf: path + ".none") }
        #expect(missing?.errno == ENOENT)
    }
}
