import CommandKit
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import reachability_service

struct EventLogTests {
    private static let scopes = [Scope.internet, .host("nas.local")]

    private static func ids(_ events: [String]) -> [String] {
        events.flatMap { $0.split(separator: "\n") }.filter { $0.hasPrefix("id: ") }.map { String($0.dropFirst(4)) }
    }

    private static func names(_ events: [String]) -> [String] {
        events.flatMap { $0.split(separator: "\n") }.filter { $0.hasPrefix("event: ") }.map { String($0.dropFirst(7)) }
    }

    @Test func anEventIsOneBlockOfLines() {
        var (log, story) = (EventLog([.internet], run: "a"), ScopeStory())
        let baseline = log.append(story.next(ScopeStory.online), ofScopeAt: 0)
        #expect(baseline.hasPrefix("id: a-1\nevent: baseline\ndata: {\"event\":\"baseline\",\"sequence\":0,"))
        let change = log.append(story.next(ScopeStory.offline, detail: "line\nbreak"), ofScopeAt: 0)
        #expect(change.hasPrefix("id: a-2\nevent: transition\ndata: {") && change.hasSuffix("}\n\n"))
        #expect(change.split(separator: "\n").count == 3 && change.contains(#"line\u000abreak"#))
    }

    @Test func newReadersGetTheStateOfEveryScope() {
        var (log, internet, nas) = (EventLog(Self.scopes, run: "a"), ScopeStory(), ScopeStory())
        #expect(log.greeting(after: nil).isEmpty && !log.isComplete)
        _ = log.append(internet.next(ScopeStory.online), ofScopeAt: 0)
        _ = log.append(nas.next(ScopeStory.online), ofScopeAt: 1)
        _ = log.append(internet.next(ScopeStory.offline), ofScopeAt: 0)
        #expect(log.isComplete)
        let greeting = log.greeting(after: nil)
        #expect(Self.names(greeting) == ["baseline", "baseline"])
        // A reader that has only the first one starts again.
        #expect(Self.ids(greeting) == ["a-3"] && greeting[1].hasPrefix("id: "))
        #expect(greeting[0].contains(#""status":"unsatisfied""#) && greeting[0].contains(#""sequence":1"#))
        #expect(!greeting[0].contains("cause"))
    }

    /// The reason of one family beside another that works changes without an event.
    @Test func newReadersGetCurrentReasons() {
        var (log, story) = (EventLog([.internet], run: "a"), ScopeStory())
        _ = log.append(story.next(ScopeStory.online), ofScopeAt: 0)
        var path = ScopeStory.online
        path.ipv6.reason = .unreachable
        log.refresh([path])
        #expect(log.greeting(after: nil).last?.contains(#""ipv6":{"satisfied":false,"reason":"unreachable"}"#) == true)
        #expect(log.records.first?.last.current == path)
        log.refresh([ScopeStory.offline])
        #expect(log.records.first?.last.current == path, "a change with an event comes with it")
    }

    @Test(arguments: [
        ("a-1", ["a-2", "a-3"]), ("a-3", []), ("a-0", ["a-1", "a-2", "a-3"]), ("b-1", ["a-3"]), ("a-4", ["a-3"]), ("", ["a-3"]),
        ("a-", ["a-3"]), ("a-x", ["a-3"]), ("a--1", ["a-3"]), ("a-99999999999999999999", ["a-3"]), ("a-1-2", ["a-3"]),
    ])
    func readersThatComeBackGetTheRest(lastID: String, ids: [String]) {
        var (log, story) = (EventLog([.internet], run: "a"), ScopeStory())
        for path in [ScopeStory.online, ScopeStory.offline, ScopeStory.online] { _ = log.append(story.next(path), ofScopeAt: 0) }
        #expect(Self.ids(log.greeting(after: lastID)) == ids)
    }

    @Test func readersThatWereAwayForTooLongGetTheState() {
        var (log, story) = (EventLog([.internet], run: "a"), ScopeStory())
        for number in 0...EventLog.capacity {
            _ = log.append(story.next(number % 2 == 0 ? ScopeStory.online : ScopeStory.offline), ofScopeAt: 0)
        }
        #expect(Self.names(log.greeting(after: "a-0")) == ["baseline"])
        #expect(log.greeting(after: "a-1").count == EventLog.capacity)
    }

    @Test func outagesAreCountedAndSummed() {
        var story = ScopeStory()
        var record = ScopeRecord(.internet, story.next(ScopeStory.offline))
        #expect(record.outages == 1 && record.offlineTime(until: BootInstant(sinceBoot: .seconds(4))) == .seconds(3))
        record.update(story.next(ScopeStory.online, after: 10))
        record.update(story.next(ScopeStory.online, after: 100))
        #expect(record.outages == 1 && record.offlineTime(until: BootInstant(sinceBoot: .seconds(200))) == .seconds(10))
        #expect(record.beginning.sequence == 1 && record.last.sequence == 2)
        record.update(story.next(ScopeStory.offline))
        // A change of the reason is the same outage.
        record.update(story.next(ScopeStory.offline, after: 5))
        record.update(story.next(.unknown, after: 5))
        #expect(record.outages == 2 && record.offlineTime(until: BootInstant(sinceBoot: .seconds(500))) == .seconds(20))
    }

    @Test func suspensionIsNoOutage() {
        func offlineTime(_ record: ScopeRecord, until seconds: Int, suspended: Int) -> Duration {
            record.offlineTime(until: BootInstant(sinceBoot: .seconds(seconds)), suspended: .seconds(suspended))
        }
        var story = ScopeStory()
        var record = ScopeRecord(.internet, story.next(ScopeStory.online), suspended: .seconds(500))
        record.update(story.next(ScopeStory.offline, after: 9), suspended: .seconds(500))
        #expect(offlineTime(record, until: 15, suspended: 500) == .seconds(5))
        // Asleep from 15 to 3615.
        #expect(offlineTime(record, until: 3620, suspended: 4100) == .seconds(10))
        record.update(story.next(ScopeStory.offline, after: 3606), suspended: .seconds(4100))
        record.update(story.next(ScopeStory.online, after: 4), suspended: .seconds(4100))
        #expect(offlineTime(record, until: 9000, suspended: 5000) == .seconds(10))
    }
}

@Suite(.timeLimit(.minutes(1))) struct EventFeedTests {
    private static func feed(maxReaders: Int = 4) -> EventFeed {
        EventFeed(EventLog([.internet], run: "a"), maxReaders: maxReaders)
    }

    @Test func theFirstVerdictOfAllScopesIsReportedOnce() async {
        let feed = EventFeed(EventLog([.internet, .host("nas.local")], run: "a"))
        var (internet, nas) = (ScopeStory(), ScopeStory())
        #expect(await !feed.publish(internet.next(ScopeStory.online), ofScopeAt: 0))
        #expect(await feed.publish(nas.next(ScopeStory.online), ofScopeAt: 1))
        #expect(await !feed.publish(internet.next(ScopeStory.offline), ofScopeAt: 0))
    }

    @Test func aSlowReaderIsCutAndComesBack() async throws {
        let feed = Self.feed()
        var story = ScopeStory()
        let cuts = Counter()
        let slow = try #require(await feed.open(after: nil) { cuts.add() })
        let quick = try #require(await feed.open(after: nil) { Issue.record("the quick reader was cut") })
        var events = quick.makeAsyncIterator()
        #expect(await events.next() == "retry: 1000\n\n")
        // The greeting takes one place of the buffer.
        for number in 1...EventFeed.bufferedEvents {
            #expect(cuts.value == 0)
            _ = await feed.publish(story.next(number % 2 == 1 ? ScopeStory.online : ScopeStory.offline), ofScopeAt: 0)
            #expect(await events.next()?.hasPrefix("id: a-\(number)\n") == true)
        }
        #expect(cuts.value == 1)
        #expect(await feed.cutReaders == 1)
        #expect(await feed.readerCount == 1)
        // What it has of the events is without a gap, and its stream ends.
        var last: String?
        for await event in slow { last = event }
        #expect(last?.hasPrefix("id: a-\(EventFeed.bufferedEvents - 1)\n") == true)
        let again = try #require(await feed.open(after: "a-\(EventFeed.bufferedEvents - 1)") {})
        var rest = again.makeAsyncIterator()
        #expect(await rest.next()?.contains("id: a-\(EventFeed.bufferedEvents)\n") == true)
        withExtendedLifetime(rest) {}
    }

    @Test func readersAreLimitedAndLeave() async throws {
        let feed = Self.feed(maxReaders: 1)
        var first = await feed.open(after: nil) {}
        #expect(first != nil)
        #expect(await feed.open(after: nil) {} == nil)
        first = nil
        #expect(await feed.readerCount == 0)
        #expect(await feed.open(after: nil) {} != nil)
        await feed.end()
        #expect(await feed.open(after: nil) {} == nil)
    }

    @Test func hintsHaveNoID() async throws {
        let feed = Self.feed()
        let version = await feed.version
        let stream = try #require(await feed.open(after: nil) {})
        await feed.hint("queue")
        var events = stream.makeAsyncIterator()
        _ = await events.next()
        #expect(await events.next() == "event: queue\ndata: {}\n\n")
        #expect(await feed.version > version)
    }
}
