import Reachability
import Testing

@Suite struct ValidationStateTests {
    private typealias Step = ValidationState.Step

    private func condition(_ epoch: UInt64, _ isSatisfied: Bool = true) -> Condition.State {
        Condition.State(isSatisfied: isSatisfied, epoch: epoch)
    }

    /// A state that has seen a path at time 0 and started its first validation.
    private func started(timeout: Duration = .seconds(10), interval: Duration? = .seconds(60)) -> ValidationState {
        var state = ValidationState(timeout: timeout, interval: interval)
        state.observe(condition(1), at: .zero)
        #expect(state.takeStep() == Step(start: 1))
        return state
    }

    @Test func nothingHappensBeforeThereIsAPath() {
        var state = ValidationState(timeout: .seconds(10), interval: .seconds(60))
        state.request()
        state.advance(to: .seconds(1))
        #expect(state.takeStep() == nil && state.takeAnswer() == nil && state.next == nil && state.takeCondition() == nil)
        state.observe(condition(0, false), at: .seconds(1))
        #expect(state.takeStep() == nil && state.takeAnswer() == .unsatisfied && state.next == nil)
        #expect(state.takeCondition() == condition(0, false) && state.takeCondition() == nil)
        state.advance(to: .longest)
        #expect(state.takeStep() == nil)
    }

    @Test func aPathIsValidatedOnceUntilItChanges() {
        var state = started()
        #expect(state.next == .seconds(10) && state.finding == nil)
        state.arrive(1, .validated)
        state.advance(to: .seconds(1))
        #expect(state.finding == .validated && state.verdict == .validated && state.next == nil)
        #expect(state.takeCondition() == condition(1) && state.takeStep() == nil)
        state.observe(condition(1), at: .seconds(2))
        state.advance(to: .longest)
        #expect(state.finding == .validated && state.verdict == nil && state.takeStep() == nil)
    }

    /// What a path becomes while its validation runs.
    @Test(arguments: [(UInt64(2), true), (1, false), (2, false)])
    func whatIsFoundAboutAnEarlierPathIsDropped(_ epoch: UInt64, _ isSatisfied: Bool) {
        var state = started()
        state.observe(condition(epoch, isSatisfied), at: .seconds(1))
        #expect(state.takeStep() == Step(cancels: true) && state.next == (isSatisfied ? .seconds(11) : nil))
        #expect(state.takeStep() == nil, "cancelled once, and not two at a time")
        state.arrive(1, .validated)
        state.advance(to: .seconds(2))
        #expect(state.finding == nil && state.verdict == nil)
        #expect(state.takeStep() == (isSatisfied ? Step(start: 2) : nil))
    }

    @Test func whatWasFoundEndsWithThePath() {
        var state = started()
        state.arrive(1, .validated)
        state.advance(to: .seconds(1))
        _ = state.takeCondition()
        state.observe(condition(2), at: .seconds(2))
        #expect(state.finding == nil && state.takeCondition() == condition(1, false) && state.takeStep() == Step(start: 2))
        state.arrive(2, .validated)
        state.advance(to: .seconds(3))
        #expect(state.takeCondition() == condition(2))
        state.observe(condition(2, false), at: .seconds(4))
        #expect(state.finding == nil && state.takeCondition() == condition(2, false) && state.takeStep() == nil)
    }

    @Test func aVerdictOfTheBatchInWhichThePathChangesIsNone() {
        var state = started()
        state.request()
        state.arrive(1, .validated)
        state.advance(to: .seconds(1))
        state.observe(condition(2), at: .seconds(1))
        #expect(state.verdict == nil && state.takeAnswer() == nil && state.takeStep() == Step(start: 2))
        state.arrive(2, .captivePortal("p"))
        state.advance(to: .seconds(2))
        #expect(state.takeAnswer() == .found(.captivePortal("p")) && state.takeAnswer() == nil)
    }

    @Test func whatTakesTooLongHasFailedAndIsCancelled() {
        var state = started()
        state.advance(to: .milliseconds(9_999))
        #expect(state.verdict == nil && state.takeStep() == nil)
        state.advance(to: .seconds(10))
        #expect(state.verdict == .failed("no answer within 10.0 seconds"))
        #expect(state.takeStep() == Step(cancels: true) && state.next == .seconds(70))
        state.arrive(1, .validated)
        state.advance(to: .seconds(11))
        #expect(state.finding == .failed("no answer within 10.0 seconds") && state.verdict == nil, "too late")
    }

    @Test func aValidatorThatDoesNotEndIsNotCalledAgainAndTheVerdictFails() {
        var state = started()
        state.advance(to: .seconds(10))
        _ = state.takeStep()
        for minute in 1...5 {
            let due = Duration.seconds(10 + (minute - 1) * 70 + 60)
            state.advance(to: due)
            #expect(state.takeStep() == nil && state.next == due + .seconds(10))
            state.advance(to: due + .seconds(10))
            #expect(state.verdict != nil && state.takeStep() == nil)
        }
        state.request()
        state.advance(to: .seconds(400))
        state.arrive(1, .validated)
        state.advance(to: .seconds(401))
        #expect(state.takeStep() == Step(start: 2) && state.verdict == nil)
    }

    @Test(arguments: [PathValidation.captivePortal("http://portal.example/"), .failed("no answer")])
    func whatIsNotValidatedIsLookedAtAgain(_ finding: PathValidation) {
        var state = started()
        state.arrive(1, finding)
        state.advance(to: .seconds(2))
        #expect(state.next == .seconds(62) && state.takeCondition() == condition(0, false))
        var lost = state
        lost.observe(condition(1, false), at: .seconds(3))
        #expect(lost.next == nil)
        state.advance(to: .seconds(61))
        #expect(state.takeStep() == nil)
        state.advance(to: .seconds(62))
        #expect(state.takeStep() == Step(start: 2) && state.finding == finding && state.next == .seconds(72))
        state.arrive(2, finding)
        state.advance(to: .seconds(63))
        #expect(state.next == .seconds(123) && state.takeCondition() == nil)
        state.advance(to: .seconds(123))
        #expect(state.takeStep() == Step(start: 3))
        state.arrive(3, .validated)
        state.advance(to: .seconds(124))
        #expect(state.next == nil && state.takeCondition() == condition(1))
    }

    @Test func withoutAnIntervalItIsNotLookedAtAgain() {
        var state = started(interval: nil)
        state.arrive(1, .failed(""))
        state.advance(to: .seconds(1))
        #expect(state.next == nil)
        state.advance(to: .longest)
        #expect(state.takeStep() == nil)
    }

    @Test func aRequestJoinsWhatRunsAndStartsWhatDoesNot() {
        var state = started()
        state.request()
        state.advance(to: .seconds(1))
        #expect(state.takeStep() == nil && state.takeAnswer() == nil && state.next == .seconds(10))
        state.arrive(1, .validated)
        state.advance(to: .seconds(2))
        #expect(state.takeAnswer() == .found(.validated) && state.takeStep() == nil && state.takeCondition() == condition(1))
        state.request()
        state.advance(to: .seconds(3))
        #expect(state.takeStep() == Step(start: 2) && state.finding == .validated, "still so while somebody looks")
        state.arrive(2, .validated)
        state.advance(to: .seconds(4))
        #expect(state.takeAnswer() == .found(.validated) && state.takeCondition() == nil, "it did not become so")
        state.advance(to: .seconds(5))
        #expect(state.takeStep() == nil)
    }

    @Test func aRequestEndsWithThePath() {
        var state = started()
        state.request()
        state.observe(condition(1, false), at: .seconds(1))
        #expect(state.takeAnswer() == .unsatisfied && state.takeAnswer() == nil)
        state.observe(condition(2), at: .seconds(2))
        #expect(state.takeAnswer() == nil)
    }

    @Test func whatIsFoundWorseOnRequestIsSo() {
        var state = started()
        state.arrive(1, .validated)
        state.advance(to: .seconds(1))
        _ = state.takeCondition()
        state.request()
        state.advance(to: .seconds(2))
        _ = state.takeStep()
        state.arrive(2, .captivePortal("p"))
        state.advance(to: .seconds(3))
        #expect(state.takeCondition() == condition(1, false) && state.next == .seconds(63))
    }

    @Test func findingsOfValidationsThatDoNotRunAreIgnored() {
        var state = started()
        state.arrive(7, .validated)
        state.advance(to: .seconds(1))
        #expect(state.finding == nil && state.takeStep() == nil)
        state.observe(condition(2), at: .seconds(2))
        #expect(state.takeStep() == Step(cancels: true), "the first one still runs")
    }

    @Test(arguments: [Duration.seconds(-1), .zero, .longest, Duration(attoseconds: .min)])
    func anyTimesAreAccepted(_ time: Duration) {
        var state = ValidationState(timeout: time, interval: time)
        state.observe(condition(1), at: .seconds(1))
        #expect(state.next.map { $0 >= .milliseconds(1001) } == true)
        state.arrive(1, .validated)
        _ = state.takeStep()
        state.arrive(1, .failed(""))
        state.advance(to: .seconds(1))
        #expect(state.next.map { $0 >= .seconds(2) } == true)
    }
}
