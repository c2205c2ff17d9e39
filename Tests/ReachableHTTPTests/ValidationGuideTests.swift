import Foundation
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// The examples of the article "Captive portals".
@Suite(.timeLimit(.minutes(20))) struct ValidationGuideTests {
    @Test func pageShowsCompiledFiles() throws {
        let compiled = try ["Watching", "Waiting", "Greeting"].map {
            try Documents.text("Tests/ReachableHTTPTests/ValidationGuide/\($0).swift")
        }
        #expect(try Documents.swiftBlocks("Sources/Reachability/Reachability.docc/Validation.md") == compiled)
    }

    /// Validates until the server answers: a slow machine may time out first.
    private func answer(_ monitor: ReachabilityMonitor) async throws -> PathValidation {
        while true {
            let finding = try await monitor.validate()
            if case .failed = finding { continue }
            return finding
        }
    }

    @Test func uploadWaitsBehindPortal() async throws {
        let isOpen = Atomic(false)
        let server = try MisbehavingServer { _ in
            isOpen.load(ordering: .acquiring) ? .respond(204) : .respond(302, ["Location": "http://portal.example/"])
        }
        defer { server.stop() }
        let clock = ManualClock()
        let monitor = makeMonitor(
            asking: try #require(URL(string: "http://127.0.0.1:\(server.port)/")), over: SimulatedNetwork.online(clock: clock))
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        let (pages, page) = AsyncStream.makeStream(of: URL?.self)
        let showing = Task { await showPortals(of: monitor) { page.yield($0) } }
        var shown = pages.makeAsyncIterator()
        #expect(try await answer(monitor) == .captivePortal("http://portal.example/"))
        #expect(await shown.next(isolation: #isolation) == URL(string: "http://portal.example/"))
        showing.cancel()
        let bus = RetryBus(monitor, clock: clock)
        let sent = Atomic(false)
        let uploading = Task.immediate {
            try await upload(Data(), over: bus, monitor: monitor) { _ in sent.store(true, ordering: .releasing) }
        }
        #expect(bus.pending.first?.unmet == ["validated internet"])
        #expect(sent.load(ordering: .acquiring) == false)
        isOpen.store(true, ordering: .releasing)
        #expect(try await answer(monitor) == .validated)
        try await uploading.value
        #expect(sent.load(ordering: .acquiring) == true)
    }

    @Test func onlyExpectedGreetingValidates() async throws {
        for (greeting, finding) in [("220 mail.example", PathValidation.validated), ("220 other.example", .captivePortal(nil))] {
            let validator = GreetingValidator(greeting: "220 mail.example") { greeting }
            #expect(try await validator.validate(.unknown) == finding)
        }
    }
}
