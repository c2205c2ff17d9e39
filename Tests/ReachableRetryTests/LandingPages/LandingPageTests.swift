import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// The code on the landing pages is compiled and does what the pages say.
@Suite(.timeLimit(.minutes(10))) struct LandingPageTests {
    @Test func reachabilityPageShowsCompiledCode() throws {
        let example = try Documents.text("Tests/ReachableRetryTests/LandingPages/StatusLine.swift")
        #expect(try Documents.swiftBlocks("Sources/Reachability/Reachability.docc/Reachability.md") == [example])
    }

    @Test func statusFollowsACable() async throws {
        try await Scenario().run { scenario in
            let (lines, show) = AsyncStream.makeStream(of: String.self)
            var shown = lines.makeAsyncIterator()
            let showing = Task { await showStatus(of: scenario.monitor) { show.yield($0) } }
            #expect(await shown.next() == "online")
            try scenario.network.pull("eth0")
            scenario.clock.advance(by: .seconds(1))
            #expect(await shown.next() == "offline: no carrier")
            showing.cancel()
            await showing.value
        }
    }
}
