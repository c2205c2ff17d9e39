import Testing

@testable import CommandKit
@testable import reachability_watch

/// The figures of `run --summary`.
struct RunRecordTests {
    private func record(_ steps: (inout RunRecord) -> Void) -> RunSummary {
        var record = RunRecord()
        steps(&record)
        return record.summary
    }

    @Test func aReconnectIsTimedToItsAttempt() {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.note(isSatisfied: true, at: .seconds(5))
            $0.noteStart(isSatisfied: true, at: .milliseconds(5001))
            $0.noteStart(isSatisfied: true, at: .seconds(60))
        }
        #expect(summary.reconnectToAttempt == .milliseconds(1) && summary.startedOffline == 0)
    }

    @Test(arguments: [true, false]) func anAttemptMayPrecedeItsReconnect(isNotedAtAll: Bool) {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.noteStart(isSatisfied: true, at: .milliseconds(4999))
            if isNotedAtAll { $0.note(isSatisfied: true, at: .seconds(5)) }
            $0.noteStart(isSatisfied: true, at: .seconds(60))
        }
        #expect(summary.reconnectToAttempt == .zero)
    }

    @Test func anInitialSatisfactionIsNoReconnect() {
        let summary = record {
            $0.note(isSatisfied: true, at: .seconds(1))
            $0.noteStart(isSatisfied: true, at: .seconds(2))
        }
        #expect(summary.reconnectToAttempt == nil)
    }

    @Test func aShortReconnectIsNotTimed() {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.note(isSatisfied: true, at: .seconds(2))
            $0.note(isSatisfied: false, at: .seconds(3))
            $0.noteStart(isSatisfied: false, at: .seconds(4))
        }
        #expect(summary.reconnectToAttempt == nil && summary.startedOffline == 1)
    }

    @Test func aReconnectCountsFromTheAttemptsEnd() {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.noteStart(isSatisfied: false, at: .seconds(2))
            $0.note(isSatisfied: true, at: .seconds(3))
            $0.noteFailure(ChildFailure(cause: .exited(1)), at: .seconds(60))
            $0.noteStart(isSatisfied: true, at: .milliseconds(60_005))
        }
        #expect(summary.reconnectToAttempt == .milliseconds(5))
    }

    @Test func timeCountsFromTheFirstVerdict() {
        let waited = record {
            $0.note(isSatisfied: true, at: .seconds(2))
            $0.note(isSatisfied: false, at: .seconds(3))
            $0.noteEnd(at: .seconds(10))
        }
        #expect(waited.elapsed == .seconds(8))
        let blind = record {
            $0.noteStart(isSatisfied: true, at: .seconds(4))
            $0.note(isSatisfied: true, at: .seconds(5))
            $0.noteEnd(at: .seconds(10))
        }
        #expect(blind.elapsed == .seconds(6))
    }

    @Test(
        arguments: [
            (ChildFailure(cause: .exited(3)), 3), (ChildFailure(cause: .exited(3), interruption: .timeLimit), 124),
            (ChildFailure(cause: .exited(0), interruption: .timeLimit), 124),
            (ChildFailure(cause: .signaled(15), interruption: .timeLimit), 124),
            (ChildFailure(cause: .signaled(15), interruption: .signal), 143),
            (ChildFailure(cause: .exited(0), interruption: .signal), 0),
            (ChildFailure(cause: .signaled(2), interruption: .signal), 130),
        ] as [(ChildFailure, Int32)])
    func theLastAttemptDecidesTheCode(failure: ChildFailure, code: Int32) {
        var record = RunRecord()
        record.noteFailure(failure, at: .zero)
        #expect(record.code == code)
    }
}
