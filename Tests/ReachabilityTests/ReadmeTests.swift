import Foundation
import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(1))) struct ReadmeTests {
    @Test func itsExampleIsTheOneThatIsCompiledHere() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let root = tests.deletingLastPathComponent().deletingLastPathComponent()
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        let shown = try #require(
            readme.components(separatedBy: "```swift\n").dropFirst().first?.components(separatedBy: "```").first)
        #expect(try String(contentsOf: tests.appendingPathComponent("ReadmeExample.swift"), encoding: .utf8) == shown)
    }

    @Test func itsUploadWaitsForTheNetwork() async throws {
        try await withMonitor { monitor, network, clock in
            let (sent, sentIn) = AsyncStream.makeStream(of: String.self)
            var sending = sent.makeAsyncIterator()
            try network.pull("eth0")
            let uploading = Task { try await upload(["a", "b"], over: monitor) { sentIn.yield($0) } }
            try network.plug("eth0")
            #expect(await sending.next() == "a")
            #expect(await sending.next() == "b")
            try await uploading.value
        }
    }

    @Test func itsReportTellsWhatHappened() async throws {
        try await withMonitor { monitor, network, clock in
            let (reported, reportedIn) = AsyncStream.makeStream(of: String.self)
            var reports = reported.makeAsyncIterator()
            let reporting = Task { await report(monitor) { reportedIn.yield($0) } }
            #expect(await reports.next() == "satisfied: watching began")
            try network.pull("eth0")
            clock.advance(by: .seconds(1))
            #expect(await reports.next() == "unsatisfied: eth0 lost carrier")
            reporting.cancel()
            await reporting.value
        }
    }
}
