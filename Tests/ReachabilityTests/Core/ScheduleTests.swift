import Reachability
import Testing

@Suite struct ScheduleTests {
    private var schedule = Schedule(auditInterval: .seconds(30), auditIntervalWhileUnsatisfied: .seconds(5))

    @Test mutating func earlyEventIsFollowedByTwoReevaluations() {
        schedule.noteEarlyEvent(at: .seconds(1))
        schedule.noteEvaluation(at: .seconds(1))
        #expect(schedule.next(unsatisfied: false) == .milliseconds(1002) && !schedule.isSettled)
        #expect(!schedule.isReevaluationDue(at: .milliseconds(1001)) && schedule.isReevaluationDue(at: .milliseconds(1002)))
        schedule.noteEvaluation(at: .milliseconds(1002))
        #expect(schedule.next(unsatisfied: false) == .milliseconds(1050))
        schedule.noteEvaluation(at: .milliseconds(1051))
        #expect(schedule.isSettled && schedule.next(unsatisfied: false) == nil)
    }

    @Test mutating func lastEarlyEventCounts() {
        schedule.noteEarlyEvent(at: .seconds(1))
        schedule.noteEarlyEvent(at: .milliseconds(1040))
        schedule.noteEvaluation(at: .milliseconds(1040))
        #expect(schedule.next(unsatisfied: false) == .milliseconds(1042))
    }

    @Test mutating func auditsAreMoreFrequentWhileUnsatisfied() {
        #expect(schedule.next(unsatisfied: true) == nil)
        schedule.noteAudit(at: .seconds(100))
        #expect(schedule.next(unsatisfied: false) == .seconds(130) && schedule.next(unsatisfied: true) == .seconds(105))
        #expect(
            !schedule.isAuditDue(at: .seconds(105), unsatisfied: false) && schedule.isAuditDue(at: .seconds(105), unsatisfied: true)
        )
    }

    @Test func auditsCanBeOffAndNeverSpin() {
        var off = Schedule(auditInterval: nil, auditIntervalWhileUnsatisfied: nil)
        off.noteAudit(at: .zero)
        #expect(off.next(unsatisfied: true) == nil && !off.isAuditDue(at: .longest, unsatisfied: false))
        var busy = Schedule(auditInterval: .zero, auditIntervalWhileUnsatisfied: .seconds(-5))
        busy.noteAudit(at: .zero)
        #expect(busy.next(unsatisfied: true) == .milliseconds(1) && busy.next(unsatisfied: false) == .milliseconds(1))
        var rare = Schedule(auditInterval: .longest, auditIntervalWhileUnsatisfied: nil)
        rare.noteAudit(at: .seconds(1))
        #expect(rare.next(unsatisfied: false) == .longest)
    }

    @Test mutating func failuresAreRetriedWithGrowingDelay() {
        var now = Duration.zero
        var delays: [Duration] = []
        for _ in 0..<9 {
            schedule.noteFailure(at: now)
            let next = schedule.retry ?? .zero
            delays.append(next - now)
            #expect(!schedule.isRetryDue(at: next - .nanoseconds(1)) && schedule.isRetryDue(at: next))
            now = next
        }
        #expect(delays == [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000].map { .milliseconds($0) })
        schedule.noteSuccess()
        #expect(schedule.retry == nil && schedule.next(unsatisfied: false) == nil)
    }

    @Test mutating func interruptedDumpsAreRetriedSooner() {
        var now = Duration.zero
        var delays: [Duration] = []
        for _ in 0..<11 {
            schedule.noteFailure(at: now, isInterruption: true)
            let next = schedule.retry ?? .zero
            delays.append(next - now)
            now = next
        }
        #expect(delays == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000].map { .milliseconds($0) })
        schedule.noteSuccess()
        schedule.noteFailure(at: now)
        #expect(schedule.retry == now + .milliseconds(50), "a failure begins with its own pause")
    }
}

/// The interface table's part of the schedule.
@Suite struct DumpScheduleTests {
    private var schedule = Schedule(auditInterval: nil, auditIntervalWhileUnsatisfied: nil)

    @Test mutating func tableIsStaleUntilTheFirstDump() {
        #expect(schedule.needsDump && schedule.mayDump(at: .zero))
        #expect(!schedule.noteDump(at: .zero) && !schedule.needsDump)
    }

    @Test mutating func failedDumpWaitsForItsRetry() {
        schedule.noteFailedDump(isTotal: true)
        schedule.noteFailure(at: .zero, isTotal: true)
        schedule.requestDump()
        #expect(schedule.needsDump && !schedule.mayDump(at: .milliseconds(49)) && schedule.mayDump(at: .milliseconds(50)))
        #expect(!schedule.noteDump(at: .milliseconds(50)) && schedule.mayDump(at: .milliseconds(50)))
    }

    @Test mutating func totalFailureLeavesOnlyTheRetry() {
        schedule.noteEarlyEvent(at: .zero)
        schedule.noteFailure(at: .zero, isTotal: true)
        #expect(schedule.next(unsatisfied: false) == .milliseconds(50))
        schedule.noteFailure(at: .zero)
        #expect(schedule.next(unsatisfied: false) == .milliseconds(2))
    }

    @Test mutating func dumpMakesUpForAResumeAndALoss() {
        _ = schedule.noteDump(at: .zero)
        schedule.noteResume()
        #expect(schedule.needsDump && schedule.noteDump(at: .zero) && !schedule.noteDump(at: .zero))
        schedule.noteLoss(at: .seconds(1))
        #expect(!schedule.needsDump && schedule.losses.explainsChanges)
        schedule.notePublication()
        #expect(schedule.losses.explainsChanges, "the table was not read yet")
        #expect(schedule.noteDump(at: .seconds(1)) && schedule.losses.explainsChanges)
        schedule.notePublication()
        #expect(!schedule.losses.explainsChanges)
    }
}

@Suite struct ResyncBackoffTests {
    private var backoff = ResyncBackoff()

    /// Loses events all the time and dumps whenever it is due; returns when that was.
    private mutating func flood(from start: Duration, dumps: Int) -> [Duration] {
        var times: [Duration] = []
        var now = start
        while times.count < dumps {
            backoff.noteLoss(at: now)
            if backoff.isDue(at: now) {
                backoff.noteDump(at: now)
                times.append(now)
            }
            now += .milliseconds(1)
        }
        return times
    }

    @Test mutating func firstLossIsDumpedAtOnce() {
        #expect(backoff.due == nil && !backoff.isPending)
        backoff.noteLoss(at: .seconds(100))
        #expect(backoff.isPending && backoff.isDue(at: .seconds(100)))
        backoff.noteDump(at: .seconds(100))
        #expect(backoff.due == nil && !backoff.isDue(at: .seconds(1000)))
    }

    @Test mutating func repeatedLossesDoubleThePauseToFiveSeconds() {
        let times = flood(from: .seconds(1), dumps: 11)
        let pauses = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(pauses == [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000].map { Duration.milliseconds($0) })
    }

    @Test mutating func quietPauseEndsTheFlood() {
        let last = flood(from: .zero, dumps: 5)[4]
        let quiet = last + .milliseconds(800)
        backoff.noteLoss(at: quiet)
        #expect(backoff.due.map { $0 <= quiet } == true)
        backoff.noteDump(at: quiet)
        backoff.noteLoss(at: quiet + .milliseconds(1))
        #expect(backoff.due == quiet + .milliseconds(50))
    }

    @Test mutating func everyDumpMakesUpForALoss() {
        backoff.noteDump(at: .zero)
        backoff.noteLoss(at: .milliseconds(1))
        #expect(backoff.isDue(at: .milliseconds(1)))
        backoff.noteDump(at: .milliseconds(1))
        backoff.noteLoss(at: .milliseconds(2))
        #expect(backoff.due == .milliseconds(51))
        backoff.noteDump(at: .milliseconds(10))
        #expect(!backoff.isPending)
        backoff.noteLoss(at: .milliseconds(11))
        #expect(backoff.due == .milliseconds(110))
    }

    @Test mutating func latestTimeDoesNotTrap() {
        backoff.noteLoss(at: .longest)
        backoff.noteDump(at: .longest)
        backoff.noteLoss(at: .longest)
        #expect(backoff.due == .longest)
    }
}
