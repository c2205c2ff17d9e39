/// When and how often failed work is tried again: a value with chainable modifiers.
///
/// ```swift
/// let policy = RetryPolicy.default
///     .giveUpAfter(elapsed: .seconds(3600))
///     .giveUpOnErrors { $0 is InvalidCredentials }
///     .attemptTimeout(.seconds(20))
/// ```
///
/// Each modifier returns a new policy; of those that set a limit or a rule the last one counts, functions add up. Durations below
/// zero count as zero. A policy is cheap to copy, and may be used by any number of jobs.
///
/// Functions given to a policy are called by the jobs' tasks, never under a lock. About an error they are asked in this order:
/// ``giveUpOnErrors(_:)``, ``retryOnErrors(_:)``, ``classify(_:)``, ``errno(for:)``. About an attempt that the bus cut, all
/// but the second are asked with ``RetryError/attemptTimedOut`` or ``RetryError/attemptInterrupted``.
///
/// ## Topics
/// ### Making a policy
/// - ``default``
/// - ``init(_:)``
/// - ``backoff(_:)``
/// ### Limits
/// - ``giveUpAfter(maxAttempts:)``
/// - ``giveUpAfter(elapsed:)``
/// - ``attemptTimeout(_:)``
/// - ``budget(_:)``
/// - ``onGiveUp(_:)``
/// - ``throwsReport()``
/// ### Errors
/// - ``giveUpOnErrors(_:)``
/// - ``retryOnErrors(_:)``
/// - ``classify(_:)``
/// - ``errno(for:)``
/// ### The network's absence
/// - ``connectivity(_:)``
/// - ``interruptsAttempt(_:)``
/// - ``onReconnect(_:)``
public struct RetryPolicy: Sendable {
    /// What becomes of the network's absence.
    ///
    /// In all cases the other conditions of a job are waited for.
    public enum Connectivity: Hashable, Sendable {
        /// No attempt starts while the scope is unsatisfied, and a reconnect starts one; failures of the network are not charged.
        ///
        /// As with `URLSessionConfiguration.waitsForConnectivity` on Apple's systems. A wait for the scope that lasts longer than
        /// `upTo` ends the job, with ``RetryError/waitLimit`` if there was no attempt; each wait is measured by itself. `nil` waits
        /// as long as it takes.
        case wait(upTo: Duration?)
        /// Attempts start offline, too; a reconnect makes the next one start early. All failures are charged.
        case accelerate
        /// The network is not looked at, and a reconnect changes nothing. All failures are charged.
        case ignore
    }

    /// The losses that cancel a running attempt.
    ///
    /// A cancelled attempt is awaited, not charged and repeated, unless ``RetryPolicy/classify(_:)`` says of
    /// ``RetryError/attemptInterrupted`` that it may not be.
    public enum InterruptionRule: Hashable, Sendable {
        /// No loss cancels an attempt.
        case never
        /// A condition that the job needs has been unsatisfied for longer than the grace.
        ///
        /// The attempt goes on if the condition comes back within the grace. The scope counts only with
        /// ``RetryPolicy/Connectivity/wait(upTo:)``, other conditions always.
        case whenUnsatisfied(grace: Duration)
        /// No interface has had the path's source address for longer than the grace.
        ///
        /// The address is the one that the scope's path had when the attempt started: without it the attempt's connections are
        /// dead, and no error reports that. A second cable, a renewed lease and a lost carrier are no loss. Of a path with an IPv4
        /// and an IPv6 source both have to be lost. An attempt that started without a path, or that no running monitor watches, is
        /// not cancelled.
        case whenSourceIsLost(grace: Duration)

        /// How long a loss may last; `nil` if no loss counts.
        package var grace: Duration? {
            switch self {
            case .never: nil
            case .whenUnsatisfied(let grace), .whenSourceIsLost(let grace): max(.zero, grace)
            }
        }

        /// If true, the loss of a condition cancels the attempt.
        var heedsConditions: Bool { if case .whenUnsatisfied = self { true } else { false } }

        /// If true, the loss of the source address cancels the attempt.
        var heedsSource: Bool { if case .whenSourceIsLost = self { true } else { false } }
    }

    /// What becomes of the growth of delays when a reconnect cut one short.
    ///
    /// The number of charged attempts is never reset.
    public enum ReconnectRule: Hashable, Sendable {
        /// It starts anew after a failure of the network, and goes on after any other.
        case automatic
        /// It starts anew.
        case resetBackoff
        /// It goes on.
        case keepBackoff
    }

    /// Shared by copies: a job that waits keeps eight bytes of it.
    package final class Rules: Sendable {
        package let backoff: Backoff
        package let maxAttempts: Int?
        package let elapsed: Duration?
        package let attemptTimeout: Duration?
        package let connectivity: Connectivity
        /// `nil` if the policy does not say.
        package let interruption: InterruptionRule?
        package let reconnect: ReconnectRule
        package let bypassesGate: Bool
        package let maxConcurrentPerDestination: Int?
        package let budget: RetryBudget?
        let classification: Classification
        let giveUpHandlers: [@Sendable (GiveUp) -> Void]
        let throwsReport: Bool

        init(_ draft: Draft) {
            backoff = draft.backoff
            maxAttempts = draft.maxAttempts.map { max(1, $0) }
            elapsed = draft.elapsed.map { max(.zero, $0) }
            attemptTimeout = draft.attemptTimeout.map { max(.zero, $0) }
            connectivity = draft.connectivity
            interruption = draft.interruption
            reconnect = draft.reconnect
            bypassesGate = draft.bypassesGate
            maxConcurrentPerDestination = draft.maxConcurrentPerDestination.map { max(1, $0) }
            budget = draft.budget
            classification = draft.classification
            giveUpHandlers = draft.giveUpHandlers
            throwsReport = draft.throwsReport
        }
    }

    struct Draft {
        var backoff: Backoff
        var maxAttempts: Int? = 10
        var elapsed: Duration?
        var attemptTimeout: Duration?
        var connectivity = Connectivity.wait(upTo: nil)
        var interruption: InterruptionRule?
        var reconnect = ReconnectRule.automatic
        var bypassesGate = false
        var maxConcurrentPerDestination: Int?
        var budget: RetryBudget?
        var classification = Classification()
        var giveUpHandlers: [@Sendable (GiveUp) -> Void] = []
        var throwsReport = false
    }

    package let rules: Rules

    /// Half a second, doubled up to 30 seconds, with full jitter; ten charged attempts; waits for connectivity.
    public static let `default` = RetryPolicy()

    /// Makes a policy that is like ``default`` but for the backoff.
    public init(
        _ backoff: Backoff = .exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(30)).jitter(.full)
    ) {
        rules = Rules(Draft(backoff: backoff))
    }

    private init(_ draft: Draft) { rules = Rules(draft) }

    private func with(_ change: (inout Draft) -> Void) -> RetryPolicy {
        var draft = Draft(
            backoff: rules.backoff, maxAttempts: rules.maxAttempts, elapsed: rules.elapsed, attemptTimeout: rules.attemptTimeout,
            connectivity: rules.connectivity, interruption: rules.interruption, reconnect: rules.reconnect,
            bypassesGate: rules.bypassesGate, maxConcurrentPerDestination: rules.maxConcurrentPerDestination, budget: rules.budget,
            classification: rules.classification, giveUpHandlers: rules.giveUpHandlers, throwsReport: rules.throwsReport)
        change(&draft)
        return RetryPolicy(draft)
    }
}

extension RetryPolicy {
    /// Waits like this between attempts.
    ///
    /// Failures of the network on a path that is there are followed by the same delays, counted by themselves; if they are not
    /// charged, by half a second at least, since nothing else would slow them down, and by a second if this machine is at fault. A
    /// reconnect or ``RetryBus/retryNow(_:ignoringServerDelays:)`` ends a delay early, unless a server ordered it.
    public func backoff(_ backoff: Backoff) -> RetryPolicy { with { $0.backoff = backoff } }

    /// Gives up after so many charged attempts, the first one included; `nil` never does.
    ///
    /// Attempts that the network broke off are not charged. What is below 1 counts as 1. Nothing is waited for after the last; its
    /// error is thrown.
    public func giveUpAfter(maxAttempts: Int?) -> RetryPolicy { with { $0.maxAttempts = maxAttempts } }

    /// Gives up when so much time has passed since the job was submitted, whatever it does then; `nil` never does.
    ///
    /// Waiting offline counts, and so does the suspension of the machine with a `ContinuousClock`. A running attempt is cancelled
    /// and awaited; then, and if there was no attempt, ``RetryError/deadline`` is thrown, otherwise the last error. If a server's
    /// order lies beyond the deadline the job gives up at once.
    public func giveUpAfter(elapsed: Duration?) -> RetryPolicy { with { $0.elapsed = elapsed } }

    /// Gives up when a budget that jobs share denies another attempt; `nil` asks none.
    ///
    /// Asked after each failure that the policy's own limits let be followed by another attempt, unless it is the network's. The
    /// operation's error is thrown. The budget is told of the failures and successes of all jobs with this policy.
    public func budget(_ budget: RetryBudget?) -> RetryPolicy { with { $0.budget = budget } }

    /// Gives up on an error that a predicate accepts.
    ///
    /// Asked first. Predicates add up: one that accepts is enough. The party at fault is still asked for: the other jobs that wait
    /// depend on that.
    public func giveUpOnErrors(_ predicate: @escaping @Sendable (any Error) -> Bool) -> RetryPolicy {
        with { $0.classification.giveUp.append(predicate) }
    }

    /// Gives up on an error that none of these predicates accepts.
    ///
    /// Asked after ``giveUpOnErrors(_:)``, and not about ``RetryError/attemptTimedOut``. Predicates add up: one that accepts is
    /// enough. Errors that an outage causes need to be accepted, too.
    public func retryOnErrors(_ predicate: @escaping @Sendable (any Error) -> Bool) -> RetryPolicy {
        with { $0.classification.retry.append(predicate) }
    }

    /// Judges a failure: the party at fault, and if another attempt may be made; `nil` if the function cannot tell.
    ///
    /// Asked after ``retryOnErrors(_:)``; of several the first with an opinion is right. The faults `server`, `overload` and
    /// `request` say that the server answered, and are never overruled, also if the attempt was cut at the same moment. An error
    /// without an opinion, here or from ``errno(for:)``, is taken for one of the network if the path changed or was gone
    /// during the attempt, and for an unknown one otherwise; another attempt may be made.
    public func classify(_ classifier: @escaping @Sendable (any Error) -> AttemptFailure?) -> RetryPolicy {
        report { error in classifier(error).map(FailureReport.init) }
    }

    /// Reports what an error says, and leaves it to the bus to judge it in the light of the network's state.
    package func report(_ report: @escaping @Sendable (any Error) -> FailureReport?) -> RetryPolicy {
        with { $0.classification.classifiers.append(report) }
    }

    /// Tells the number of the system's error that an error stands for: `errno`, or one of getaddrinfo(3)'s, which are negative.
    ///
    /// Asked after ``classify(_:)``; return `nil` for other errors. Of several functions the first with an answer is right. The
    /// numbers of a `ReachabilityError` are known without. The bus knows these:
    ///
    /// - `ENETUNREACH`, `ENETDOWN`: ``AttemptFailure/Fault/network``; if the path is there and does not change, such as for a host
    ///   that has only addresses of the other family, only the first time, then ``AttemptFailure/Fault/unknown``.
    /// - `EHOSTUNREACH`, `ETIMEDOUT`: ``AttemptFailure/Fault/network`` within 30 seconds of a reconnect if no server has answered
    ///   since, otherwise ``AttemptFailure/Fault/server``. A network that comes up answers late.
    /// - `EAI_AGAIN`: ``AttemptFailure/Fault/network``; if other jobs get answers meanwhile, ``AttemptFailure/Fault/server``.
    /// - `ECONNREFUSED`: ``AttemptFailure/Fault/server``.
    /// - `EMFILE`, `ENFILE`, `ENOMEM`, `ENOBUFS`, `ETXTBSY`, `EAGAIN`, `EADDRNOTAVAIL`: ``AttemptFailure/Fault/local``.
    ///
    /// All of them, but the first six of the last line, are ``AttemptFailure/Fault/network`` if the path changed or was gone during
    /// the attempt, and so are other numbers; without that, other numbers are ``AttemptFailure/Fault/unknown``.
    ///
    /// ```swift
    /// policy.errno { ($0 as? POSIXError)?.code.rawValue }
    /// ```
    public func errno(for number: @escaping @Sendable (any Error) -> Int32?) -> RetryPolicy {
        with { $0.classification.errnoReaders.append(number) }
    }

    /// Cancels an attempt that takes longer than this; `nil` lets it run.
    ///
    /// The attempt is awaited and then counts as failed with ``RetryError/attemptTimedOut``, whatever it throws; if it succeeds all
    /// the same, so does the job. Time spent waiting between attempts does not count.
    public func attemptTimeout(_ timeout: Duration?) -> RetryPolicy { with { $0.attemptTimeout = timeout } }

    /// Decides what becomes of the network's absence.
    public func connectivity(_ connectivity: Connectivity) -> RetryPolicy { with { $0.connectivity = connectivity } }

    /// Cancels a running attempt when the network that it uses is lost, as the rule says.
    ///
    /// Without this modifier a bus uses ``InterruptionRule/never``, and `ReachableHTTP` uses
    /// ``InterruptionRule/whenSourceIsLost(grace:)`` with 5 s.
    public func interruptsAttempt(_ rule: InterruptionRule) -> RetryPolicy { with { $0.interruption = rule } }

    /// Sets the rule for a policy that has none.
    package func interruptsAttempt(unlessSet rule: InterruptionRule) -> RetryPolicy {
        rules.interruption == nil ? interruptsAttempt(rule) : self
    }

    /// Decides what becomes of the growth of delays when a reconnect cut one short.
    public func onReconnect(_ rule: ReconnectRule) -> RetryPolicy { with { $0.reconnect = rule } }

    /// Starts as soon as the network is there, whatever the bus's ``ReleasePolicy`` says.
    ///
    /// For a job that must not wait for others, such as a sign-in that they need.
    /// ``RetryBus/Configuration/maxConcurrent`` holds for it, too.
    public func bypassesGate() -> RetryPolicy { with { $0.bypassesGate = true } }

    /// Waits while so many attempts of the job's destination run; `nil` leaves the limit to the bus.
    package func maxConcurrentPerDestination(_ count: Int?) -> RetryPolicy { with { $0.maxConcurrentPerDestination = count } }

    /// Is told the report of each job that gives up, before its caller gets the error.
    ///
    /// Handlers add up, and are called in order, by the job's task: where the operation ran, with its caller waiting. Not called
    /// for jobs that are cancelled.
    public func onGiveUp(_ handler: @escaping @Sendable (GiveUp) -> Void) -> RetryPolicy {
        with { $0.giveUpHandlers.append(handler) }
    }
    /// Throws the report of a job that gives up, instead of its last error.
    ///
    /// The ``GiveUp`` says why, after how many attempts and how much time, and carries the last error. For callers that show or log
    /// the error and have no ``onGiveUp(_:)``. Cancelled jobs still throw `CancellationError`, and jobs that the bus does not take
    /// a ``RetryError``.
    public func throwsReport() -> RetryPolicy { with { $0.throwsReport = true } }
}
