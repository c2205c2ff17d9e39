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
        queue.ended()
        #expect(queue.step(nil, at: .seconds(2)) == [])
        #expect(queue.needsPrograms && queue.step(["a"], at: .seconds(2)) == [start(2)])
        #expect(queue.count == 2 && queue.dropped == 0)
    }

    @Test func newerTransitionsReplaceWaitingOnes() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        for number in 2...4 as ClosedRange<UInt64> { queue.submit(number) }
        #expect(queue.step(nil, at: .zero) == [.reportDrops(2)])
        queue.ended()
        _ = queue.step(nil, at: .zero)
        #expect(queue.step(["a"], at: .zero) == [start(4)])
        #expect(queue.count == 4 && queue.dropped == 2)
    }

    @Test func scopesKeepTheirPlaceInLine() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.submit(2, scope: 1)
        queue.submit(3, scope: 0)
        queue.submit(4, scope: 1)
        for expected in [4, 3] as [UInt64] {
            queue.ended()
            _ = queue.step(nil, at: .zero)
            #expect(queue.step(["a"], at: .zero) == [start(expected)])
        }
    }

    @Test func programsOfADirectoryFollowEachOther() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        #expect(queue.step(["a", "b"], at: .zero) == [start(1)])
        queue.submit(2, scope: 1)
        queue.ended()
        #expect(queue.step(nil, at: .seconds(20)) == [start(1, "b")])
        #expect(queue.nextStep == .seconds(50))
        queue.ended()
        #expect(queue.step(nil, at: .seconds(21)) == [])
        #expect(queue.step(["a", "b"], at: .seconds(21)) == [start(2)])
    }

    @Test func aNewerTransitionEndsASequence() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .zero)
        queue.submit(2)
        queue.ended()
        #expect(queue.step(nil, at: .zero) == [.reportDrops(1)])
        #expect(queue.step(["a", "b"], at: .zero) == [start(2)])
    }

    @Test func anEmptyDirectoryIsNoDrop() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        #expect(queue.step([], at: .zero) == [])
        #expect(!queue.needsPrograms && queue.dropped == 0)
    }

    @Test func aLateProgramIsEnded() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .seconds(1))
        #expect(queue.nextStep == .seconds(31))
        #expect(queue.step(nil, at: .milliseconds(30_999)) == [])
        #expect(queue.step(nil, at: .seconds(31)) == [.terminate(isLate: true)])
        #expect(queue.nextStep == nil && queue.step(nil, at: .seconds(99)) == [])
        queue.ended()
        #expect(queue.step(nil, at: .seconds(100)) == [start(1, "b")])
    }

    @Test func aProgramThatEndsInTimeIsNotEnded() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        queue.ended()
        #expect(queue.step(nil, at: .seconds(99)) == [])
    }

    @Test func aStopEndsTheProgramAndForgetsTheRest() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a", "b"], at: .zero)
        queue.submit(2, scope: 1)
        queue.stop()
        queue.submit(3)
        #expect(queue.step(nil, at: .zero) == [.terminate(isLate: false)])
        #expect(!queue.isFinished)
        queue.ended()
        #expect(queue.step(nil, at: .seconds(1)) == [])
        #expect(queue.isFinished && !queue.needsPrograms && queue.count == 2 && queue.dropped == 0)
    }

    @Test func aStopDuringATerminationEndsNothingTwice() {
        var queue = HookQueue(timeLimit: Self.limit)
        queue.submit(1)
        _ = queue.step(["a"], at: .zero)
        #expect(queue.step(nil, at: .seconds(30)) == [.terminate(isLate: true)])
        queue.stop()
        #expect(queue.step(nil, at: .seconds(31)) == [])
        queue.ended()
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
