/// When to have the internet validated, and what was found.
///
/// Pure: it is told the time. What comes from other threads (``request()``, ``arrive(_:_:)``) is only noted; the rest happens in
/// the order of a batch: ``advance(to:)``, ``observe(_:at:)``, ``noteOtherWay(at:)``, then ``takeAnswer()`` and ``takeStep(at:)``.
package struct ValidationState: Equatable, Sendable {
    /// What is to be done with the validator.
    package struct Step: Equatable, Sendable {
        /// Whether the validation that runs is to be cancelled.
        package var cancels = false
        /// The number of the validation to be started; never while another one runs.
        package var start: UInt64?

        package init(cancels: Bool = false, start: UInt64? = nil) { (self.cancels, self.start) = (cancels, start) }
    }

    /// What those are told who have asked for a validation.
    package enum Answer: Equatable, Sendable {
        case found(PathValidation)
        /// There is no path that could be validated.
        case unsatisfied
    }

    /// A verdict that is wanted.
    private struct Attempt: Equatable {
        /// When it is given up.
        var deadline: Duration
        /// The validation that is to bring it; `nil` before the one that ran before has ended.
        var number: UInt64?
    }

    /// A validation that runs.
    private struct Run: Equatable {
        var number: UInt64
        var isCancelled = false
    }

    private struct Arrival: Equatable {
        var number: UInt64
        var finding: PathValidation
    }

    /// The pause after the first failure, and the least between two validations that nobody asked for: links may flap.
    package static let shortestPause = Duration.seconds(1)

    private let timeout: Duration
    private let longestPause: Duration?
    /// The internet's condition; `nil` before its first evaluation.
    private var level: Condition.State?
    /// What was found about the present path; `nil` if nothing was yet.
    package private(set) var finding: PathValidation?
    /// What was found in this batch.
    package private(set) var verdict: PathValidation?
    private var attempt: Attempt?
    private var run: Run?
    private var arrival: Arrival?
    private var lastNumber: UInt64 = 0
    private var lastStart: Duration?
    /// When to look next without being asked.
    private var due: Duration?
    /// How long to wait after the next failure.
    private var pause = shortestPause
    private var hasRequests = false
    private var epoch: UInt64 = 0
    /// What the condition was last told.
    private var told: Condition.State?

    /// Makes a state in which nothing is known.
    package init(timeout: Duration, longestPause: Duration?) {
        self.timeout = max(timeout, .milliseconds(1))
        self.longestPause = longestPause.map { max($0, Self.shortestPause) }
    }

    /// When there is something to do.
    package var next: Duration? { Duration.earlier(attempt?.deadline, due) }

    /// Whether the internet is satisfied and validated, as a condition shows it.
    package var condition: Condition.State { Condition.State(isSatisfied: finding == .validated, epoch: epoch) }

    /// Whether the internet was ever evaluated.
    package var isKnown: Bool { level != nil }

    /// Notes that somebody wants a verdict.
    package mutating func request() { hasRequests = true }

    /// Notes that a validation has ended.
    package mutating func arrive(_ number: UInt64, _ finding: PathValidation) {
        if run?.number == number { arrival = Arrival(number: number, finding: finding) }
    }

    /// Takes in what came since the last batch: the end of the validation, requests, and that time has passed.
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

    /// Takes in the internet's level and epoch after an evaluation.
    ///
    /// Whatever was found about an earlier path says nothing about another one.
    package mutating func observe(_ state: Condition.State, at now: Duration) {
        guard state != level else { return }
        level = state
        (finding, verdict, attempt, due, pause) = (nil, nil, nil, nil, Self.shortestPause)
        if state.isSatisfied { look(at: now) }
    }

    /// Packets go another way at the same level and epoch: over another gateway, or over one family more or less.
    ///
    /// What was found stands until somebody has looked again, for connections may still hold, too; what is under way is dropped.
    package mutating func noteOtherWay(at now: Duration) {
        guard level?.isSatisfied == true else { return }
        attempt = nil
        look(at: now)
    }

    /// The condition, if it has changed.
    package mutating func takeCondition() -> Condition.State? {
        guard isKnown, told != condition else { return nil }
        told = condition
        return told
    }

    /// What is to be done with the validator, if anything.
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

    /// What those are to be told who have asked, if there is something.
    package mutating func takeAnswer() -> Answer? {
        guard hasRequests, let level else { return nil }
        let answer = verdict.map { Answer.found($0) } ?? (level.isSatisfied ? nil : .unsatisfied)
        if answer != nil { hasRequests = false }
        return answer
    }

    /// The path is another one.
    private mutating func look(at now: Duration) {
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
