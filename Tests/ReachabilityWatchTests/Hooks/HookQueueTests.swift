import Reachability
import Testing

@testable import CommandKit

/// The rules of hooks one by one.
struct HookQueueTests {
    private typealias Effect = HookQueue.Effect

    private static let limit = Duration.seconds(30)

    private func start(_ number: UInt64, _ program: String = "a") -> Effect { .start(program, .numbered(number)) }

    @Test func oneProgramRunsAtATime() {
        var queue = HookQueue(timeLimit: Self.limit)
        #expect(!queue.needsPrograms && queue.step(nil, at: .zero) == [])
        queue.submit(1)
        #expect(queue.needsPrograms && queue.step(["a"], at: .zero) == [start(1)])
        queue.submit(2)
        #expect(!queue.needsPrograms && queue.step(nil, at: .seconds(1)) == [])
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(2)) == [])
        #expect(queue.needsPrograms && queue.step(["a"], at: .seconds(2)) == [start(2)])
        #expect(queue.count == 2 && queue.counts.dropped == 0)
    }

    @Test func newerTransitionsReplaceWaitingOnes() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        for number in 2...4 as ClosedRange<UInt64> { queue.submit(number) }
        #expect(queue.step(nil, at: .zero) == [.reportDrops(2)])
        queue.ended(.succeeded)
        _ = queue.step(nil, at: .zero)
        #expect(queue.step(["a"], at: .zero) == [start(4)])
        #expect(queue.count == 4 && queue.counts.dropped == 2)
    }

    @Test func scopesKeepTheirPlaceInLine() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.submit(2, scope: 1)
        queue.submit(3, scope: 0)
        queue.submit(4, scope: 1)
        for expected in [4, 3] as [UInt64] {
            queue.ended(.succeeded)
            _ = queue.step(nil, at: .zero)
            #expect(queue.step(["a"], at: .zero) == [start(expected)])
        }
    }

    @Test func programsOfADirectoryFollowEachOther() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        #expect(queue.step(["a", "b"], at: .zero) == [start(1)])
        queue.submit(2, scope: 1)
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(20)) == [start(1, "b")])
        #expect(queue.nextStep == .seconds(50))
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(21)) == [])
        #expect(queue.step(["a", "b"], at: .seconds(21)) == [start(2)])
    }

    @Test func aNewerTransitionEndsASequence() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .zero)
        queue.submit(2)
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .zero) == [.reportDrops(1)])
        #expect(queue.step(["a", "b"], at: .zero) == [start(2)])
    }

    @Test func anEmptyDirectoryIsNoDrop() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        #expect(queue.step([], at: .zero) == [])
        #expect(!queue.needsPrograms && queue.counts.dropped == 0)
    }

    @Test func aLateProgramIsEnded() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .seconds(1))
        #expect(queue.nextStep == .seconds(31))
        #expect(queue.step(nil, at: .milliseconds(30_999)) == [])
        #expect(queue.step(nil, at: .seconds(31)) == [.terminate("a", isLate: true)])
        #expect(queue.nextStep == nil && queue.step(nil, at: .seconds(99)) == [])
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(100)) == [start(1, "b")])
    }

    @Test func aProgramThatEndsInTimeIsNotEnded() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(99)) == [])
    }

    @Test func aStopEndsTheProgramAndForgetsTheRest() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .zero)
        queue.submit(2, scope: 1)
        queue.stop()
        queue.submit(3)
        #expect(queue.step(nil, at: .zero) == [.terminate("a", isLate: false)])
        #expect(!queue.isFinished)
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(1)) == [])
        #expect(queue.isFinished && !queue.needsPrograms && queue.count == 2 && queue.counts.dropped == 0)
    }

    @Test func aStopDuringATerminationEndsNothingTwice() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        #expect(queue.step(nil, at: .seconds(30)) == [.terminate("a", isLate: true)])
        queue.stop()
        #expect(queue.step(nil, at: .seconds(31)) == [])
        queue.ended(.succeeded)
        _ = queue.step(nil, at: .seconds(32))
        #expect(queue.isFinished)
    }

    @Test func dropsAreReportedOnceASecond() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.submit(2)
        queue.submit(3)
        #expect(queue.step(nil, at: .seconds(5)) == [.reportDrops(1)])
        queue.submit(4)
        queue.submit(5)
        #expect(queue.step(nil, at: .milliseconds(5999)) == [])
        #expect(queue.nextStep == .seconds(6))
        #expect(queue.step(nil, at: .seconds(6)) == [.reportDrops(2)])
        #expect(queue.nextStep == .seconds(30))
    }

    @Test func endsAreCounted() {
        var queue = HookQueue(timeLimit: Self.limit)
        let programs = ["a", "b", "c", "d", "e"]
        queue.submit(1)
        _ = queue.step(programs, at: .zero)
        for (outcome, next) in zip([.succeeded, .failed, .refused, .skipped] as [HookQueue.Outcome], programs.dropFirst()) {
            queue.ended(outcome)
            #expect(queue.step(nil, at: .zero) == [start(1, next)])
        }
        #expect(queue.step(nil, at: .seconds(30)) == [.terminate("e", isLate: true)])
        // Whatever its end is then.
        queue.ended(.succeeded)
        #expect(queue.step(nil, at: .seconds(31)) == [])
        queue.refuse()
        #expect(
            queue.counts.byOutcome.map { "\($0) \($1)" }
                == ["succeeded 1", "failed 1", "timedOut 1", "dropped 0", "refused 2"])
    }

    @Test func theEndOfTheQueueIsNoEndOfAProgram() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .zero)
        queue.stop()
        #expect(queue.step(nil, at: .zero) == [.terminate("a", isLate: false)])
        queue.ended(.failed)
        #expect(queue.step(nil, at: .zero) == [] && queue.isFinished && queue.counts == HookCounts())
    }

    @Test func aShortageDelaysTheProgram() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .zero)
        for second in 0..<30 {
            queue.ended(.notStarted)
            #expect(queue.step(nil, at: .seconds(second)) == [])
            #expect(queue.nextStep == .seconds(second + 1) && !queue.needsPrograms)
            #expect(queue.step(nil, at: .milliseconds(second * 1000 + 999)) == [])
            #expect(queue.step(nil, at: .seconds(second + 1)) == [start(1)])
        }
        // Each start has the whole time, but starts end after one such time.
        #expect(queue.nextStep == .seconds(60))
        queue.ended(.notStarted)
        #expect(queue.step(nil, at: .seconds(30)) == [start(1, "b")])
        #expect(queue.counts.failed == 1)
        queue.ended(.notStarted)
        #expect(queue.step(nil, at: .seconds(40)) == [] && queue.nextStep == .seconds(41))
    }

    @Test func aNewerTransitionEndsTheWaitForResources() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.ended(.notStarted)
        #expect(queue.step(nil, at: .zero) == [])
        queue.submit(2, scope: 1)
        #expect(queue.step(nil, at: .milliseconds(100)) == [])
        queue.submit(3)
        #expect(queue.step(nil, at: .milliseconds(200)) == [.reportDrops(1)])
        #expect(queue.step(["a"], at: .milliseconds(200)) == [start(2)])
    }

    @Test func aShortageAtTheEndDelaysNothing() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.ended(.notStarted)
        queue.stop()
        #expect(queue.step(nil, at: .zero) == [] && queue.isFinished && queue.counts == HookCounts())
    }

    @Test func aStopEndsTheWaitForResources() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.ended(.notStarted)
        _ = queue.step(nil, at: .zero)
        queue.stop()
        #expect(queue.step(nil, at: .milliseconds(1)) == [] && queue.isFinished && queue.counts == HookCounts())
    }

    @Test func unlimitedTimesDoNotOverflow() {
        var queue = HookQueue(timeLimit: .longest)
        queue.submit(1)
        #expect(queue.step(["a"], at: .seconds(5)) == [start(1)])
        #expect(queue.nextStep == .longest)
    }
}

extension HookQueue {
    /// Takes a transition that is told apart by a number.
    mutating func submit(_ number: UInt64, scope: Int = 0) { submit(Turn(scope: scope, facts: .numbered(number))) }
}

extension HookFacts {
    /// Facts that are told apart by a number.
    static func numbered(_ number: UInt64) -> HookFacts {
        var transition = Samples.baseline(Samples.offline())
        transition.sequence = number
        return HookFacts(transition, of: .internet, elapsed: nil)
    }
}
