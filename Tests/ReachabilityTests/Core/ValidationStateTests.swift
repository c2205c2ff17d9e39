import Reachability
import Testing

/// The times of validations, and the life of their results.
@Suite struct ValidationStateTests {
    private typealias Step = ValidationState.Step

    /// A state in a test's hand, where expectations may change it.
    private final class Bench {
        var state: ValidationState

        init(timeout: Duration = .seconds(10), longestPause: Duration? = .seconds(60)) {
            state = ValidationState(timeout: timeout, longestPause: longestPause)
        }

        /// A state that has seen a path at time 0 and started its first validation.
        static func started(longestPause: Duration? = .seconds(60)) -> Bench {
            let bench = Bench(longestPause: longestPause)
            bench.observe(1, at: .zero)
            #expect(bench.step(at: .zero) == Step(start: 1))
            return bench
        }

        var finding: PathValidation? { state.finding }
        var verdict: PathValidation? { state.verdict }
        var next: Duration? { state.next }
        func observe(_ epoch: UInt64, _ isSatisfied: Bool = true, at now: Duration) {
            state.observe(Condition.State(isSatisfied: isSatisfied, epoch: epoch), at: now)
        }
        func step(at now: Duration) -> Step? { state.takeStep(at: now) }
        func answer() -> ValidationState.Answer? { state.takeAnswer() }
        func condition() -> Condition.State? { state.takeCondition() }

        /// The validation with that number ends, and the next batch comes.
        func arrive(_ number: UInt64, _ finding: PathValidation, at now: Duration) {
            state.arrive(number, finding)
            state.advance(to: now)
        }
    }

    private func condition(_ epoch: UInt64, _ isSatisfied: Bool = true) -> Condition.State {
        Condition.State(isSatisfied: isSatisfied, epoch: epoch)
    }

    @Test func validationWaitsForAPath() {
        let bench = Bench()
        bench.state.request()
        bench.state.advance(to: .seconds(1))
        #expect(bench.step(at: .seconds(1)) == nil && bench.answer() == nil && bench.next == nil && bench.condition() == nil)
        bench.observe(0, false, at: .seconds(1))
        #expect(bench.step(at: .seconds(1)) == nil && bench.answer() == .unsatisfied && bench.next == nil)
        #expect(bench.condition() == condition(0, false))
        #expect(bench.condition() == nil)
        bench.state.advance(to: .longest)
        #expect(bench.step(at: .longest) == nil)
    }

    @Test func pathIsValidatedOnce() {
        let bench = Bench.started()
        #expect(bench.next == .seconds(10) && bench.finding == nil)
        bench.arrive(1, .validated, at: .seconds(1))
        #expect(bench.finding == .validated && bench.verdict == .validated && bench.next == nil)
        #expect(bench.condition() == condition(1) && bench.step(at: .seconds(1)) == nil)
        bench.observe(1, at: .seconds(2))
        bench.state.advance(to: .longest)
        #expect(bench.finding == .validated && bench.verdict == nil && bench.step(at: .longest) == nil)
    }

    /// The changes of a path during its validation.
    @Test(arguments: [(UInt64(2), true), (1, false), (2, false)])
    func resultForAnEarlierPathIsDropped(_ epoch: UInt64, _ isSatisfied: Bool) {
        let bench = Bench.started()
        bench.observe(epoch, isSatisfied, at: .seconds(1))
        #expect(bench.step(at: .seconds(1)) == Step(cancels: true) && bench.next == (isSatisfied ? .seconds(11) : nil))
        #expect(bench.step(at: .seconds(1)) == nil, "cancelled once, and not two at a time")
        bench.arrive(1, .validated, at: .seconds(2))
        #expect(bench.finding == nil && bench.verdict == nil)
        #expect(bench.step(at: .seconds(2)) == (isSatisfied ? Step(start: 2) : nil))
    }

    @Test func resultEndsWithThePath() {
        let bench = Bench.started()
        bench.arrive(1, .validated, at: .seconds(1))
        #expect(bench.condition() == condition(1))
        bench.observe(2, at: .seconds(2))
        #expect(bench.finding == nil && bench.condition() == condition(1, false) && bench.step(at: .seconds(2)) == Step(start: 2))
        bench.arrive(2, .validated, at: .seconds(3))
        #expect(bench.condition() == condition(2))
        bench.observe(2, false, at: .seconds(4))
        #expect(bench.finding == nil && bench.condition() == condition(2, false) && bench.step(at: .seconds(4)) == nil)
    }

    @Test func pathChangeVoidsTheBatchsResult() {
        let bench = Bench.started()
        bench.state.request()
        bench.arrive(1, .validated, at: .seconds(1))
        bench.observe(2, at: .seconds(1))
        #expect(bench.verdict == nil && bench.answer() == nil && bench.step(at: .seconds(1)) == Step(start: 2))
        bench.arrive(2, .captivePortal("p"), at: .seconds(2))
        #expect(bench.answer() == .found(.captivePortal("p")))
        #expect(bench.answer() == nil)
    }

    @Test func gatewayChangeKeepsTheResultUntilTheNext() {
        let bench = Bench.started()
        bench.state.noteOtherWay(at: .seconds(2))
        #expect(bench.step(at: .seconds(2)) == Step(cancels: true), "its result is about the gateway before")
        bench.arrive(1, .failed("cancelled"), at: .seconds(3))
        #expect(bench.finding == nil && bench.step(at: .seconds(3)) == Step(start: 2))
        bench.arrive(2, .validated, at: .seconds(4))
        #expect(bench.condition() == condition(1))
        bench.state.noteOtherWay(at: .seconds(5))
        #expect(bench.step(at: .seconds(5)) == Step(start: 3) && bench.finding == .validated && bench.condition() == nil)
        bench.arrive(3, .captivePortal(nil), at: .seconds(6))
        #expect(bench.finding == .captivePortal(nil) && bench.condition() == condition(1, false))
        bench.observe(1, false, at: .seconds(7))
        bench.state.noteOtherWay(at: .seconds(7))
        #expect(bench.step(at: .seconds(7)) == nil && bench.next == nil, "it leads nowhere")
    }

    @Test func pendingValidationUsesTheNewPath() {
        let bench = Bench()
        bench.observe(1, at: .zero)
        bench.state.noteOtherWay(at: .zero)
        #expect(bench.step(at: .zero) == Step(start: 1) && bench.next == .seconds(10))
    }

    @Test func validationsAreOneSecondApart() {
        let bench = Bench.started()
        bench.arrive(1, .validated, at: .milliseconds(10))
        for flap in 1...9 {
            let now = Duration.milliseconds(flap * 100)
            bench.observe(UInt64(1 + flap), false, at: now)
            bench.observe(UInt64(1 + flap), at: now)
            #expect(bench.step(at: now) == nil && bench.next == .seconds(1) && bench.finding == nil)
            bench.state.noteOtherWay(at: now)
            #expect(bench.step(at: now) == nil && bench.next == .seconds(1))
        }
        bench.state.advance(to: .seconds(1))
        #expect(bench.step(at: .seconds(1)) == Step(start: 2) && bench.next == .seconds(11))
    }

    @Test func requestSkipsThePause() {
        let bench = Bench.started()
        bench.arrive(1, .validated, at: .milliseconds(10))
        bench.state.request()
        bench.observe(2, at: .milliseconds(20))
        #expect(bench.step(at: .milliseconds(20)) == Step(start: 2))
        bench.arrive(2, .validated, at: .milliseconds(30))
        #expect(bench.answer() == .found(.validated))
        bench.observe(3, at: .milliseconds(40))
        #expect(bench.step(at: .milliseconds(40)) == nil)
        bench.state.request()
        bench.state.advance(to: .milliseconds(50))
        #expect(bench.step(at: .milliseconds(50)) == Step(start: 3))
    }

    @Test func slowValidationFailsAndIsCancelled() {
        let bench = Bench.started()
        bench.state.advance(to: .milliseconds(9_999))
        #expect(bench.verdict == nil && bench.step(at: .milliseconds(9_999)) == nil)
        bench.state.advance(to: .seconds(10))
        #expect(bench.verdict == .failed("no answer within 10.0 seconds"))
        #expect(bench.step(at: .seconds(10)) == Step(cancels: true) && bench.next == .seconds(11))
        bench.arrive(1, .validated, at: .milliseconds(10_500))
        #expect(bench.finding == .failed("no answer within 10.0 seconds") && bench.verdict == nil, "too late")
    }

    @Test func hangingValidatorIsNotCalledAgain() throws {
        let bench = Bench.started()
        bench.state.advance(to: .seconds(10))
        #expect(bench.step(at: .seconds(10)) == Step(cancels: true))
        for _ in 1...9 {
            let due = try #require(bench.next)
            bench.state.advance(to: due)
            #expect(bench.step(at: due) == nil && bench.next == due + .seconds(10))
            bench.state.advance(to: due + .seconds(10))
            #expect(bench.verdict != nil && bench.step(at: due + .seconds(10)) == nil)
        }
        bench.state.request()
        bench.state.advance(to: .seconds(1000))
        #expect(bench.step(at: .seconds(1000)) == nil && bench.answer() == nil)
        bench.arrive(1, .validated, at: .seconds(1001))
        #expect(bench.step(at: .seconds(1001)) == Step(start: 2) && bench.verdict == nil && bench.answer() == nil)
    }

    @Test(arguments: [PathValidation.captivePortal("http://portal.example/"), .failed("no answer")])
    func failedValidationIsRepeatedAfterDoublingPauses(_ finding: PathValidation) throws {
        let bench = Bench.started(longestPause: .seconds(5))
        var now = Duration.milliseconds(200)
        for (number, pause) in zip(UInt64(1)..., [1, 2, 4, 5, 5]) {
            bench.arrive(number, finding, at: now)
            #expect(bench.finding == finding && bench.step(at: now) == nil && bench.next == now + .seconds(pause))
            now = try #require(bench.next)
            bench.state.advance(to: now - .milliseconds(1))
            #expect(bench.step(at: now - .milliseconds(1)) == nil)
            bench.state.advance(to: now)
            #expect(bench.step(at: now) == Step(start: number + 1) && bench.finding == finding && bench.next == now + .seconds(10))
        }
        #expect(bench.condition() == condition(0, false))
        bench.arrive(6, .validated, at: now)
        #expect(bench.next == nil && bench.condition() == condition(1))
        bench.state.request()
        bench.state.advance(to: now)
        #expect(bench.step(at: now) == Step(start: 7))
        bench.arrive(7, finding, at: now)
        #expect(bench.next == now + .seconds(1), "pauses restart after a success")
        bench.observe(2, at: now + .seconds(1))
        #expect(bench.step(at: now + .seconds(1)) == Step(start: 8))
        bench.arrive(8, finding, at: now + .seconds(1))
        #expect(bench.next == now + .seconds(2), "and on another path")
        bench.observe(2, false, at: now + .seconds(2))
        #expect(bench.next == nil)
    }

    @Test func missingIntervalEndsRetries() {
        let bench = Bench.started(longestPause: nil)
        bench.arrive(1, .failed(""), at: .seconds(1))
        #expect(bench.next == nil)
        bench.state.advance(to: .longest)
        #expect(bench.step(at: .longest) == nil)
    }

    @Test func requestJoinsARunningValidation() {
        let bench = Bench.started()
        bench.state.request()
        bench.state.advance(to: .seconds(1))
        #expect(bench.step(at: .seconds(1)) == nil && bench.answer() == nil && bench.next == .seconds(10))
        bench.arrive(1, .validated, at: .seconds(2))
        #expect(bench.answer() == .found(.validated) && bench.step(at: .seconds(2)) == nil && bench.condition() == condition(1))
        bench.state.request()
        bench.state.advance(to: .seconds(3))
        #expect(bench.step(at: .seconds(3)) == Step(start: 2) && bench.finding == .validated, "kept during the next validation")
        bench.arrive(2, .validated, at: .seconds(4))
        #expect(bench.answer() == .found(.validated) && bench.condition() == nil, "it did not become so")
        bench.state.advance(to: .seconds(5))
        #expect(bench.step(at: .seconds(5)) == nil)
    }

    @Test func requestEndsWithThePath() {
        let bench = Bench.started()
        bench.state.request()
        bench.observe(1, false, at: .seconds(1))
        #expect(bench.answer() == .unsatisfied)
        #expect(bench.answer() == nil)
        bench.observe(2, at: .seconds(2))
        #expect(bench.answer() == nil)
    }

    @Test func lateResultIsIgnored() {
        let bench = Bench.started()
        bench.arrive(7, .validated, at: .seconds(1))
        #expect(bench.finding == nil && bench.step(at: .seconds(1)) == nil)
        bench.observe(2, at: .seconds(2))
        #expect(bench.step(at: .seconds(2)) == Step(cancels: true), "the first one still runs")
    }

    @Test(arguments: [Duration.seconds(-1), .zero, .longest, Duration(attoseconds: .min)])
    func anyTimesAreAccepted(_ time: Duration) throws {
        let bench = Bench(timeout: time, longestPause: time)
        bench.observe(1, at: .seconds(1))
        #expect(try #require(bench.next) >= .milliseconds(1001))
        #expect(bench.step(at: .seconds(1)) == Step(start: 1))
        var now = Duration.seconds(1)
        for number in UInt64(1)...100 {
            bench.arrive(number, .failed(""), at: now)
            #expect(try #require(bench.next) >= now.saturatingAdd(.seconds(1)))
            now = try #require(bench.next)
            bench.state.advance(to: now)
            _ = bench.step(at: now)
        }
    }
}
