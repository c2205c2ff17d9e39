import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct ReadmeTests {
    @Test func readmeShowsTheCompiledExample() throws {
        let example = try Documents.text("Tests/ReachableRetryTests/ReadmeExample.swift")
        #expect(try Documents.swiftBlocks("README.md") == [example])
    }

    @Test func uploadSurvivesAPulledCable() async throws {
        struct ConnectionReset: Error {}
        try await Scenario().run { scenario in
            let events = scenario.bus.events
            let uploading = Task {
                var sent: [String] = []
                try await upload(["a", "b"], over: scenario.bus) { photo in
                    sent.append(photo)
                    if sent == ["a", "b"] {
                        try scenario.network.pull("eth0")
                        throw ConnectionReset()
                    }
                }
                return sent
            }
            _ = await events.first { $0.kind == .waiting }
            try scenario.network.plug("eth0")
            #expect(try await uploading.finished() == ["a", "b", "b"])
            #expect(scenario.clock.now.offset == .zero, "nothing was waited for but the cable")
        }
    }

    @Test func reportListsAttemptsAndTimes() async throws {
        try await Scenario().run { scenario in
            let (reported, reportedIn) = AsyncStream.makeStream(of: String.self)
            var reports = reported.makeAsyncIterator()
            let reporting = Task { await report(scenario.monitor) { reportedIn.yield($0) } }
            #expect(await reports.next() == "satisfied: watching began")
            try scenario.network.pull("eth0")
            scenario.clock.advance(by: .seconds(1))
            #expect(await reports.next() == "unsatisfied: eth0 lost carrier")
            reporting.cancel()
            await reporting.value
        }
    }
}
