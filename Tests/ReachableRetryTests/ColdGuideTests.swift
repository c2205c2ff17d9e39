import Foundation
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// The code of the article "Jobs that have not begun".
@Suite(.timeLimit(.minutes(10))) struct ColdGuideTests {
    @Test func guideShowsTheCompiledFiles() throws {
        try Documents.expect(
            "Sources/ReachableRetry/ReachableRetry.docc/JobsThatHaveNotBegun.md",
            toShowTheFilesOf: ["Tests/ReachableRetryTests/ColdGuide"])
    }

    @Test func theFeedWaitsForTheLogin() async throws {
        try await Scenario().run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            let job = headlines(of: { ["news"] }, on: scenario.bus, when: login.condition)
            let (screen, line) = AsyncStream.makeStream(of: String.self)
            var shown = screen.makeAsyncIterator()
            let showing = Task { await show(job) { line.yield($0) } }
            #expect(await shown.next() == "Waiting for condition 'login'.")
            login.set(true)
            #expect(await shown.next() == "Loading…")
            #expect(await shown.next() == "news")
            await showing.value
        }
    }

    @Test func theOutboxIsSentWhenTheNetworkIsBack() async throws {
        try await Scenario(online: false).run { scenario in
            let (sent, send) = AsyncStream.makeStream(of: String.self)
            try ReachableRetryTests.send(["a", "b", "c"], over: scenario.bus) { send.yield($0) }
            #expect(scenario.bus.pending.count == 3)
            try scenario.network.plug("eth0")
            #expect(await sent.prefix(3).reduce(into: Set<String>()) { $0.insert($1) } == ["a", "b", "c"])
        }
    }

    @Test func theInboxIsFetchedEveryMinute() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario)
            let (calls, called) = AsyncStream.makeStream(of: Void.self)
            let task = scenario.start {
                try await keepInboxFresh(on: scenario.bus) {
                    _ = try script.call()
                    called.yield()
                }
            }
            let stop = scenario.start {
                for await _ in calls.prefix(3) {}
                task.cancel()
                try await task.value
            }
            await scenario.letPass(until: stop)
            #expect(script.calls == [0, 60, 120])
        }
    }

    @Test func onlyTheLatestQueryIsSearchedAfterAReconnect() async throws {
        try await Scenario(online: false).run { scenario in
            let (queries, type) = AsyncStream.makeStream(of: String.self)
            let searched = Recorder<String>()
            let found = results(for: queries, on: scenario.bus) { query in
                searched.record(query)
                return [query + "!"]
            }
            var events = scenario.bus.events.makeAsyncIterator()
            type.yield("s")
            #expect(await events.next(isolation: #isolation)?.kind == .waiting)
            type.yield("sw")
            let second = [await events.next(isolation: #isolation)?.kind, await events.next(isolation: #isolation)?.kind]
            // Two jobs: the new one need not wait until the old one has ended.
            #expect(Set(second) == [.cancelled, .waiting])
            try scenario.network.plug("eth0")
            var results = found.makeAsyncIterator()
            #expect(await results.next() == ["sw!"])
            type.finish()
            #expect(await results.next() == nil && searched.value == ["sw"])
        }
    }

    @Test func messagesContinueAfterALostConnection() async throws {
        try await Scenario().run { scenario in
            let server = Connections(lines: [["a"], ["b", "c"]])
            let reader = scenario.start {
                var shown: [String] = []
                try await show({ shown.append($0) }, on: scenario.bus) { server.connect() }
                return shown
            }
            await scenario.letPass(until: reader)
            try await #expect(reader.value == ["a", "b", "c"])
        }
    }
}

/// Connections that each deliver their lines, and then fail unless it is the last.
private final class Connections: Sendable {
    private let lines: Mutex<[[String]]>

    init(lines: [[String]]) { self.lines = Mutex(lines) }

    func connect() -> AsyncThrowingStream<String, any Error> {
        let (first, isLast) = lines.withLock { lines in
            let first = lines.isEmpty ? [] : lines.removeFirst()
            return (first, lines.isEmpty)
        }
        return AsyncThrowingStream { messages in
            for line in first { messages.yield(line) }
            messages.finish(throwing: isLast ? nil : Trouble.other)
        }
    }
}
