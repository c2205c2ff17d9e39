import CommandKit
import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

@testable import reachability_service

/// A place for observations that fails on demand.
private final class FailingStorage: HistoryStorage {
    struct State {
        var isFull = false
        var observations: [Observation] = []
        var isEnded = false
    }

    let path = "/full/history.db"
    let state = Mutex(State())

    func write(_ observations: [Observation], alive: Duration, isEnd: Bool) async throws {
        try state.withLock { state in
            guard !state.isFull else { throw CommandFailure(.outputFailed, "the disk is full; next: free some space") }
            state.observations += observations
            state.isEnded = isEnd
        }
    }

    func prune(before time: Duration, keeping count: Int) async throws {}

    func reduce<Result: Sendable>(
        into initial: Result, from start: Duration, of scopes: [String],
        _ update: @escaping @Sendable (inout Result, Observation) -> Void
    ) async throws -> Result {
        try state.withLock { state in
            guard !state.isFull else { throw CommandFailure(.outputFailed, "the disk is full; next: free some space") }
            return state.observations.reduce(into: initial, update)
        }
    }
}

@Suite(.timeLimit(.minutes(1))) struct HistoryTests {
    private static let start = Duration.seconds(1_767_225_600)

    private struct Desk {
        let storage = FailingStorage()
        let messages = Recorder<String>()
        let history: History

        init(scopes: [Scope] = [.internet]) {
            history = History(
                scopes, opening: { [storage] () throws(CommandFailure) in storage },
                report: { [messages] in messages.record($0) })
        }
    }

    private static func statuses(_ summary: TimelineSummary?) -> [String] {
        summary?.spans.map { "\($0.status.rawValue) \($0.duration.components.seconds)" } ?? []
    }

    @Test func aFullDiskIsReportedOnceAndLosesNothing() async throws {
        let desk = Desk()
        var story = ScopeStory()
        try await desk.history.open()
        desk.storage.state.withLock { $0.isFull = true }
        await desk.history.add(Observation(story.next(ScopeStory.online), of: .internet))
        await desk.history.write(now: Self.start + .seconds(2))
        await desk.history.add(Observation(story.next(ScopeStory.offline, after: 9), of: .internet))
        await desk.history.write(now: Self.start + .seconds(11))
        #expect(
            desk.messages.value == [
                "the disk is full; next: free some space; until then the last changes are kept in memory"
            ])
        #expect(await desk.history.problem != nil)
        // The timeline has them nevertheless.
        let summary = await desk.history.timelines(from: Self.start, until: Self.start + .seconds(15)).first
        #expect(Self.statuses(summary) == ["unknown 1", "satisfied 9", "unsatisfied 5"])
        desk.storage.state.withLock { $0.isFull = false }
        await desk.history.write(now: Self.start + .seconds(20))
        #expect(desk.messages.value.last == "the history is written again")
        #expect(desk.storage.state.withLock(\.observations).map(\.status) == [.satisfied, .unsatisfied])
        #expect(await desk.history.problem == nil)
    }

    @Test func memoryIsBoundedWhileTheDiskIsFull() async throws {
        let desk = Desk()
        var story = ScopeStory()
        desk.storage.state.withLock { $0.isFull = true }
        for number in 0..<History.capacity + 5 {
            await desk.history.add(
                Observation(story.next(number % 2 == 0 ? ScopeStory.online : ScopeStory.offline), of: .internet))
        }
        desk.storage.state.withLock { $0.isFull = false }
        await desk.history.write(now: Self.start)
        let kept = desk.storage.state.withLock(\.observations)
        #expect(kept.count == History.capacity && kept.last?.sequence == UInt64(History.capacity + 4))
    }

    @Test func withoutAFileTheRunIsRemembered() async {
        let history = History([.internet], opening: nil, report: { _ in })
        var story = ScopeStory()
        await history.add(Observation(story.next(ScopeStory.online), of: .internet))
        await history.write(now: Self.start + .seconds(5))
        let summary = await history.timelines(from: Self.start + .seconds(1), until: Self.start + .seconds(11)).first
        #expect(Self.statuses(summary) == ["satisfied 10"])
    }

    @Test func scopesHaveTimelinesOfTheirOwn() async {
        let desk = Desk(scopes: [.internet, .host("nas.local")])
        var (internet, nas) = (ScopeStory(), ScopeStory())
        await desk.history.add(Observation(internet.next(ScopeStory.online), of: .internet))
        await desk.history.add(Observation(nas.next(ScopeStory.offline), of: .host("nas.local")))
        await desk.history.write(now: Self.start + .seconds(2))
        let summaries = await desk.history.timelines(from: Self.start + .seconds(1), until: Self.start + .seconds(4))
        #expect(summaries.map(\.scope) == ["internet", "nas.local"])
        #expect(summaries.map { Self.statuses($0) } == [["satisfied 3"], ["unsatisfied 3"]])
    }

    private static func moment(_ seconds: Int64) -> Moment {
        Moment(at: BootInstant(sinceBoot: .seconds(seconds)), wallTime: start + .seconds(seconds))
    }

    @Test(arguments: [true, false]) func aSuspensionIsUnknown(_ isTickFirst: Bool) async {
        let desk = Desk(scopes: [.internet, .host("nas.local")])
        var (internet, nas) = (ScopeStory(), ScopeStory())
        await desk.history.add(Observation(internet.next(ScopeStory.online), of: .internet))
        await desk.history.add(Observation(nas.next(ScopeStory.offline), of: .host("nas.local")))
        for seconds in [61, 121, 181] as [Int64] { await desk.history.noteLife(at: Self.moment(seconds)) }
        await desk.history.write(now: Self.start + .seconds(181))
        if isTickFirst { await desk.history.noteLife(at: Self.moment(10_981)) }
        await desk.history.add(Observation(internet.next(ScopeStory.offline, after: 10_980), of: .internet))
        await desk.history.noteLife(at: Self.moment(10_991))
        let summaries = await desk.history.timelines(from: Self.start + .seconds(1), until: Self.start + .seconds(10_991))
        #expect(
            summaries.map { Self.statuses($0) } == [
                ["satisfied 180", "unknown 10800", "unsatisfied 10"], ["unsatisfied 180", "unknown 10800", "unsatisfied 10"],
            ])
        #expect(summaries[0].availability.map { abs($0 - 180.0 / 190) < 1e-9 } == true)
        await desk.history.write(now: Self.start + .seconds(10_991))
        let later = await desk.history.timelines(from: Self.start + .seconds(1), until: Self.start + .seconds(10_991))
        #expect(later.map(\.spans) == summaries.map(\.spans), "the file has the gap, too")
    }

    @Test func aQuietServiceIsNoGap() async {
        let desk = Desk()
        var story = ScopeStory()
        await desk.history.add(Observation(story.next(ScopeStory.online), of: .internet))
        for minutes in 0..<600 as Range<Int64> { await desk.history.noteLife(at: Self.moment(minutes * 60)) }
        await desk.history.noteLife(at: Self.moment(599 * 60 + 600))
        let summary = await desk.history.timelines(from: Self.start + .seconds(1), until: Self.start + .seconds(36_540)).first
        #expect(Self.statuses(summary) == ["satisfied 36539"])
    }

    @Test func lossesThatShareATransitionAreCounted() async {
        let desk = Desk()
        var story = ScopeStory()
        await desk.history.add(Observation(story.next(ScopeStory.online), of: .internet))
        var flapped = story.next(ScopeStory.online)
        (flapped.kinds, flapped.losses) = (.reestablished, 37)
        await desk.history.add(Observation(flapped, of: .internet))
        var lost = story.next(ScopeStory.offline)
        lost.losses = 5
        await desk.history.add(Observation(lost, of: .internet))
        let summary = await desk.history.timelines(from: Self.start, until: Self.start + .seconds(60)).first
        #expect(summary?.reestablished == 41 && summary?.sums.outages == 1)
    }

    @Test func anOrderlyEndIsNoted() async throws {
        let desk = Desk()
        await desk.history.write(now: Self.start, isEnd: true)
        #expect(desk.storage.state.withLock { $0.isEnded })
    }

    @Test func otherFailuresOfTheFileEndTheStart() async {
        let history = History(
            [.internet], opening: { () throws(CommandFailure) in throw CommandFailure(.invalidData, "of another program") },
            report: { _ in })
        await #expect(throws: CommandFailure.self) { try await history.open() }
    }
}
