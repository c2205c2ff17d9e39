/// The times and results of validations of the internet.
///
/// Pure. Calls from other threads (``request()``, ``arrive(_:_:)``) are only noted. Each batch calls, in this order,
/// ``advance(to:)``, ``observe(_:at:)``, ``noteOtherWay(at:)``, ``takeAnswer()`` and ``takeStep(at:)``.
package struct ValidationState: Equatable, Sendable {
    /// An order to the validator.
    package struct Step: Equatable, Sendable {
        /// True if the running validation has to be cancelled.
        package var cancels = false
        /// The number of the validation to start; `nil` while another one runs.
        package var start: UInt64?

        package init(cancels: Bool = false, start: UInt64? = nil) { (self.cancels, self.start) = (cancels, start) }
    }

    /// The answer to requests for a validation.
    package enum Answer: Equatable, Sendable {
        case found(PathValidation)
        /// There is no path to validate.
        case unsatisfied
    }

    /// A wanted verdict.
    private struct Attempt: Equatable {
        /// The time at which the attempt fails.
        var deadline: Duration
        /// The number of its validation; `nil` until the one before has ended.
        var number: UInt64?
    }

    /// A running validation.
    private struct Run: Equatable {
        var number: UInt64
        var isCancelled = false
    }

    private struct Arrival: Equatable {
        var number: UInt64
        var finding: PathValidation
    }

    /// The pause after the first failure, and the least between two validations without a request: links may flap.
    package static let shortestPause = Duration.seconds(1)

    private let timeout: Duration
    private let longestPause: Duration?
    /// The internet's condition; `nil` before its first evaluation.
    private var level: Condition.State?
    /// The result for the present path; `nil` before the first.
    package private(set) var finding: PathValidation?
    /// The result of this batch.
    package private(set) var verdict: PathValidation?
    private var attempt: Attempt?
    private var run: Run?
    private var arrival: Arrival?
    private var lastNumber: UInt64 = 0
    private var lastStart: Duration?
    /// The time of the next validation without a request.
    private var due: Duration?
    /// The pause after the next failure.
    private var pause = shortestPause
    private var hasRequests = false
    private var epoch: UInt64 = 0
    /// The condition that was published last.
    private var publishedCondition: Condition.State?

    /// Makes the state before the first validation.
    package init(timeout: Duration, longestPause: Duration?) {
        self.timeout = max(timeout, .milliseconds(1))
        self.longestPause = longestPause.map { max($0, Self.shortestPause) }
    }

    /// The time of the next step.
    package var next: Duration? { Duration.earlier(attempt?.deadline, due) }

    /// The condition of a validated internet.
    package var condition: Condition.State { Condition.State(isSatisfied: finding == .validated, epoch: epoch) }

    /// True after the first evaluation of the internet.
    package var isKnown: Bool { level != nil }

    /// Requests a verdict.
    package mutating func request() { hasRequests = true }

    /// Notes the end of a validation.
    package mutating func arrive(_ number: UInt64, _ finding: PathValidation) {
        if run?.number == number { arrival = Arrival(number: number, finding: finding) }
    }

    /// Takes in the end of a validation, requests, and the time.
    package mutating func advance(to now: Duration) {
        verdict = nil
        if let arrival = arrival.take() {
            run = nil
            if attempt?.number == arrival.number { conclude(arrival.finding, at: now) }
        }
        if let attempt, attempt.deadline <= now { conclude(.failed("no answer within \(timeout)"), at: now) }
        let isDue = due.map { $0 <= now } ?? false
        guard isDue || hasRequests, verdict == nil, attempt == nil, level?.isSatisfied == true else { return }
        begin(at: now)
    }

    /// Takes in the internet's level and epoch after an evaluation; a new epoch voids the result.
    package mutating func observe(_ state: Condition.State, at now: Duration) {
        guard state != level else { return }
        level = state
        (finding, verdict, attempt, due, pause) = (nil, nil, nil, nil, Self.shortestPause)
        if state.isSatisfied { validate(at: now) }
    }

    /// Validates again after a change at the same level and epoch: another gateway, or one family more or less.
    ///
    /// The result stands until the next one, because connections may still hold; a running validation is dropped.
    package mutating func noteOtherWay(at now: Duration) {
        guard level?.isSatisfied == true else { return }
        attempt = nil
        validate(at: now)
    }

    /// Returns the condition if it changed.
    package mutating func takeCondition() -> Condition.State? {
        guard isKnown, publishedCondition != condition else { return nil }
        publishedCondition = condition
        return publishedCondition
    }

    /// Returns the next order to the validator.
    package mutating func takeStep(at now: Duration) -> Step? {
        var step = Step()
        if let run, !run.isCancelled, run.number != attempt?.number {
            self.run?.isCancelled = true
            step.cancels = true
        }
        if run == nil, attempt != nil, attempt?.number == nil {
            lastNumber += 1
            attempt?.number = lastNumber
            run = Run(number: lastNumber)
            lastStart = now
            step.start = lastNumber
        }
        return step == Step() ? nil : step
    }

    /// Returns the answer to requests, once there is one.
    package mutating func takeAnswer() -> Answer? {
        guard hasRequests, let level else { return nil }
        let answer = verdict.map { Answer.found($0) } ?? (level.isSatisfied ? nil : .unsatisfied)
        if answer != nil { hasRequests = false }
        return answer
    }

    /// Starts or schedules a validation of another path.
    private mutating func validate(at now: Duration) {
        let earliest = lastStart.map { $0.saturatingAdd(Self.shortestPause) } ?? now
        if earliest <= now || hasRequests { begin(at: now) } else { due = earliest }
    }

    private mutating func begin(at now: Duration) {
        attempt = Attempt(deadline: now.saturatingAdd(timeout))
        due = nil
    }

    private mutating func conclude(_ finding: PathValidation, at now: Duration) {
        if finding == .validated && self.finding != .validated { epoch &+= 1 }
        (self.finding, verdict, attempt, due) = (finding, finding, nil, nil)
        guard finding != .validated, let longestPause else { return pause = Self.shortestPause }
        due = now.saturatingAdd(pause)
        pause = min(pause.saturatingAdd(pause), longestPause)
    }
}
