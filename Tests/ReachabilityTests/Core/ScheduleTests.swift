import Reachability
import Testing

@Suite struct ScheduleTests {
    private var schedule = Schedule(auditInterval: .seconds(30), auditIntervalWhileUnsatisfied: .seconds(5))

    @Test mutating func aHintIsFollowedByTwoMoreLooks() {
        schedule.noteHint(at: .seconds(1))
        schedule.noteEvaluation(at: .seconds(1))
        #expect(schedule.next(unsatisfied: false) == .milliseconds(1002) && !schedule.isSettled)
        #expect(!schedule.isReevaluationDue(at: .milliseconds(1001)) && schedule.isReevaluationDue(at: .milliseconds(1002)))
        schedule.noteEvaluation(at: .milliseconds(1002))
        #expect(schedule.next(unsatisfied: false) == .milliseconds(1050))
        schedule.noteEvaluation(at: .milliseconds(1051))
        #expect(schedule.isSettled && schedule.next(unsatisfied: false) == nil)
    }

    @Test mutating func theLastHintCounts() {
        schedule.noteHint(at: .seconds(1))
        schedule.noteHint(at: .milliseconds(1040))
        schedule.noteEvaluation(at: .milliseconds(1040))
        #expect(schedule.next(unsatisfied: false) == .milliseconds(1042))
    }

    @Test mutating func auditsComeOftenerWhileUnsatisfied() {
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

@Suite struct FlapPenaltyTests {
    @Test func aPenaltyHalvesEveryFifteenSeconds() {
        var penalty = FlapPenalty()
        #expect(penalty.level(at: .seconds(5)) == 0)
        penalty.addLoss(at: .seconds(100))
        #expect(penalty.level(at: .seconds(100)) == 1)
        #expect(abs(penalty.level(at: .seconds(115)) - 0.5) < 1e-6)
        #expect(abs(penalty.level(at: .milliseconds(107_500)) - 0.707_106_78) < 1e-6)
        #expect(abs(penalty.level(at: .seconds(145)) - 0.125) < 1e-6)
        penalty.addLoss(at: .seconds(115))
        #expect(abs(penalty.level(at: .seconds(115)) - 1.5) < 1e-6)
    }

    @Test func strangeTimesAreHarmless() {
        var penalty = FlapPenalty()
        penalty.addLoss(at: .seconds(100))
        #expect(penalty.level(at: .zero) == 1)
        #expect(penalty.level(at: .longest) == 0)
        #expect(penalty.level(at: Duration(attoseconds: .min)) == 1)
    }

    @Test func durationsSaturate() {
        #expect(Duration.longest.saturatingAdd(.seconds(1)) == .longest)
        #expect(Duration(attoseconds: .min).saturatingAdd(.seconds(-1)) == Duration(attoseconds: .min))
        #expect(Duration(attoseconds: .min).saturatingSubtract(.seconds(1)) == Duration(attoseconds: .min))
        #expect(Duration.longest.saturatingSubtract(.seconds(-1)) == .longest)
        #expect(Duration.seconds(3).saturatingSubtract(.seconds(1)) == .seconds(2))
    }
}
