import Reachability
import Testing

@testable import reachability_watch

struct SequenceCheckTests {
    private func transition(_ sequence: UInt64) -> Transition {
        Samples.transition(sequence, from: Samples.offline(), to: Samples.online(), .online, Samples.cableBack)
    }

    @Test func countsWhatIsMissing() {
        var check = SequenceCheck()
        #expect(check.missed(before: Samples.baseline(Samples.offline())) == 0)
        #expect(check.missed(before: transition(1)) == 0)
        #expect(check.missed(before: transition(5)) == 3)
        #expect(check.missed(before: transition(6)) == 0)
    }

    @Test func knowsNothingBeforeTheFirstOne() {
        var check = SequenceCheck()
        #expect(check.missed(before: transition(.max)) == 0)
        #expect(check.missed(before: transition(1)) == 0)
    }
}
