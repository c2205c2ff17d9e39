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

    @Test func itsExampleSyncsWheneverTheNetworkComesBack() async throws {
        try await withMonitor { monitor, network, clock in
            let (syncs, syncsIn) = AsyncStream.makeStream(of: Void.self)
            let keeping = Task { await keepInSync(monitor) { syncsIn.yield() } }
            var synced = syncs.makeAsyncIterator()
            await synced.next()
            try network.pull("eth0")
            clock.advance(by: .seconds(1))
            try network.plug("eth0")
            await synced.next()
            keeping.cancel()
            await keeping.value
        }
    }
}
