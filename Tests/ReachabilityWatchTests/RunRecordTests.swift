import Testing

@testable import reachability_watch

/// What `run --summary` makes of when things happened.
struct RunRecordTests {
    private func record(_ steps: (inout RunRecord) -> Void) -> RunSummary {
        var record = RunRecord()
        steps(&record)
        return record.summary
    }

    @Test func aReconnectIsTimedUntilTheAttemptThatItStarted() {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.note(isSatisfied: true, at: .seconds(5))
            $0.noteStart(isSatisfied: true, at: .milliseconds(5001))
            $0.noteStart(isSatisfied: true, at: .seconds(60))
        }
        #expect(summary.reconnectToAttempt == .milliseconds(1) && summary.startedOffline == 0)
    }

    @Test(arguments: [true, false]) func anAttemptMayStartBeforeItsReconnectIsNoted(isNotedAtAll: Bool) {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.noteStart(isSatisfied: true, at: .milliseconds(4999))
            if isNotedAtAll { $0.note(isSatisfied: true, at: .seconds(5)) }
            $0.noteStart(isSatisfied: true, at: .seconds(60))
        }
        #expect(summary.reconnectToAttempt == .zero)
    }

    @Test func whatWasThereFromTheBeginningIsNoReconnect() {
        let summary = record {
            $0.note(isSatisfied: true, at: .seconds(1))
            $0.noteStart(isSatisfied: true, at: .seconds(2))
        }
        #expect(summary.reconnectToAttempt == nil)
    }

    @Test func aReconnectThatDidNotLastStartedNothing() {
        let summary = record {
            $0.note(isSatisfied: false, at: .seconds(1))
            $0.note(isSatisfied: true, at: .seconds(2))
            $0.note(isSatisfied: false, at: .seconds(3))
            $0.noteStart(isSatisfied: false, at: .seconds(4))
        }
        #expect(summary.reconnectToAttempt == nil && summary.startedOffline == 1)
    }
}
