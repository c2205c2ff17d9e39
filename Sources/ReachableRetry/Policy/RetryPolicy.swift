/// The rules for repeating failed work: a value with chainable modifiers.
///
/// ```swift
/// let policy = RetryPolicy.default
///     .giveUpAfter(elapsed: .seconds(3600))
///     .giveUpOnErrors { $0 is InvalidCredentials }
///     .attemptTimeout(.seconds(20))
/// ```
///
/// Each modifier returns a new policy. A later limit or rule replaces an earlier one; functions add up. Negative durations are
/// treated as zero. A policy is cheap to copy, and any number of jobs may use it.
///
/// The jobs' tasks call a policy's functions, never under a lock. For an error the order is ``giveUpOnErrors(_:)``,
/// ``retryOnErrors(_:)``, ``classify(_:)``, ``errno(for:)``. For an attempt that the bus cut, all but the second are called
/// with ``RetryError/attemptTimedOut`` or ``RetryError/attemptInterrupted``.
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
    /// The behavior of a job while offline.
    ///
    /// In all cases the job waits for its other conditions.
    public enum Connectivity: Hashable, Sendable {
        /// No attempt starts while the scope is unsatisfied, and a reconnect starts one. Network failures are not charged.
        ///
        /// Like `URLSessionConfiguration.waitsForConnectivity` on Apple's systems. A wait for the scope that lasts longer than
        /// `upTo` ends the job, with ``RetryError/waitLimit`` if there was no attempt. Each wait is measured separately; `nil` sets
        /// no limit.
        case wait(upTo: Duration?)
        /// Attempts also start offline, and a reconnect starts the next one early. All failures are charged.
        case accelerate
        /// The job ignores the network and its reconnects. All failures are charged.
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

        /// The longest loss that cancels no attempt; `nil` if no loss cancels one.
        package var grace: Duration? {
            switch self {
            case .never: nil
            case .whenUnsatisfied(let grace), .whenSourceIsLost(let grace): max(.zero, grace)
            }
        }

        /// True if the loss of a condition cancels the attempt.
        var heedsConditions: Bool { if case .whenUnsatisfied = self { true } else { false } }

        /// True if the loss of the source address cancels the attempt.
        var heedsSource: Bool { if case .whenSourceIsLost = self { true } else { false } }
    }

    /// The growth of the backoff after a reconnect ended a delay.
    ///
    /// The number of charged attempts is never reset.
    public enum ReconnectRule: Hashable, Sendable {
        /// Starts over after a network failure, and continues after any other.
        case automatic
        /// Starts over.
        case resetBackoff
        /// Continues.
        case keepBackoff
    }

    /// Shared by copies, so that a waiting job keeps eight bytes of it.
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
        package let giveUpHandlers: [@Sendable (GiveUp) -> Void]
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

        /// True if a job waits for its scope.
        package var waitsForScope: Bool { if case .wait = connectivity { true } else { false } }
        /// True if the release policy applies to a job.
        package var isGated: Bool { waitsForScope && !bypassesGate }
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

    /// Backoff from 500 ms, doubled up to 30 s, with full jitter; ten charged attempts; waits for connectivity.
    public static let `default` = RetryPolicy()

    /// Creates a policy that equals ``default`` except for the backoff.
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
    /// Sets the delays between attempts.
    ///
    /// Network failures on a satisfied path have the same delays, counted separately. Uncharged failures wait at least 500 ms, and
    /// 1 s after a shortage on this machine. A reconnect or ``RetryBus/retryNow(_:ignoringServerDelays:)`` ends a delay early,
    /// unless a server ordered it.
    public func backoff(_ backoff: Backoff) -> RetryPolicy { with { $0.backoff = backoff } }

    /// Limits the charged attempts, the first one included; `nil` sets no limit.
    ///
    /// Attempts that the network broke are not charged. Values below 1 are treated as 1. The job ends at once after the last
    /// attempt and throws its error.
    public func giveUpAfter(maxAttempts: Int?) -> RetryPolicy { with { $0.maxAttempts = maxAttempts } }

    /// Limits the time since the job's submission; `nil` sets no limit.
    ///
    /// Time offline counts, and with a `ContinuousClock` the machine's suspension, too. At the deadline a running attempt is
    /// cancelled and awaited. The job throws ``RetryError/deadline`` then and if there was no attempt, otherwise the last error. If
    /// a server ordered a delay beyond the deadline, the job gives up at once.
    public func giveUpAfter(elapsed: Duration?) -> RetryPolicy { with { $0.elapsed = elapsed } }

    /// Gives up when a shared budget denies another attempt; `nil` uses no budget.
    ///
    /// The bus consults it after each failure that the policy's own limits allow to be repeated, except network failures. A job
    /// that is denied throws the operation's error. All jobs with this policy report their failures and successes to the budget.
    public func budget(_ budget: RetryBudget?) -> RetryPolicy { with { $0.budget = budget } }

    /// Gives up on an error that a predicate accepts.
    ///
    /// Called first. Predicates add up: one that accepts is enough. The error is still classified, because other waiting jobs
    /// depend on its fault.
    public func giveUpOnErrors(_ predicate: @escaping @Sendable (any Error) -> Bool) -> RetryPolicy {
        with { $0.classification.giveUp.append(predicate) }
    }

    /// Gives up on an error that none of these predicates accepts.
    ///
    /// Called after ``giveUpOnErrors(_:)``, and not for an attempt that the bus cut. The ``RetryError`` of a job within the
    /// operation is an error like others. Predicates add up: one that accepts is enough. Accept the errors that an outage causes,
    /// too.
    public func retryOnErrors(_ predicate: @escaping @Sendable (any Error) -> Bool) -> RetryPolicy {
        with { $0.classification.retry.append(predicate) }
    }

    /// Classifies a failure: its fault, and if another attempt may be made.
    ///
    /// Return `nil` for unknown errors.
    ///
    /// Called after ``retryOnErrors(_:)``; the first classifier with a result decides. The faults `server`, `overload` and
    /// `request` mean that the server answered. The bus never overrules them, not even if it cut the attempt at the same moment.
    /// An error without a result, here or from ``errno(for:)``, is a network failure if the path changed or was lost during the
    /// attempt, and unknown otherwise. It may be repeated.
    public func classify(_ classifier: @escaping @Sendable (any Error) -> AttemptFailure?) -> RetryPolicy {
        with { $0.classification.classifiers.append { error in classifier(error).map(FailureReport.init) } }
    }

    /// Classifies a failure by its evidence, in the order of ``classify(_:)``.
    package func classifyEvidence(_ classifier: @escaping @Sendable (any Error) -> FailureReport?) -> RetryPolicy {
        with { $0.classification.classifiers.append(classifier) }
    }

    /// Returns the system error number of an error: an `errno`, or a negative number of getaddrinfo(3).
    ///
    /// Called after ``classify(_:)``. Return `nil` for other errors; the first function with a result decides. The bus knows the
    /// numbers of a `ReachabilityError` without it, and classifies these numbers:
    ///
    /// - `ENETUNREACH`, `ENETDOWN`: ``AttemptFailure/Fault/network``. On a satisfied path that does not change, such as for a host
    ///   that has addresses of the other family only, just the first time, then ``AttemptFailure/Fault/unknown``.
    /// - `EHOSTUNREACH`, `ETIMEDOUT`: ``AttemptFailure/Fault/network`` within 30 s of a reconnect if no server has answered since,
    ///   otherwise ``AttemptFailure/Fault/server``. A network that comes up answers late.
    /// - `EAI_AGAIN`: ``AttemptFailure/Fault/network``; if other jobs get answers meanwhile, ``AttemptFailure/Fault/server``.
    /// - `ECONNREFUSED`: ``AttemptFailure/Fault/server``.
    /// - `EMFILE`, `ENFILE`, `ENOMEM`, `ENOBUFS`, `ETXTBSY`, `EAGAIN`, `EADDRNOTAVAIL`: ``AttemptFailure/Fault/local``.
    ///
    /// If the path changed or was lost during the attempt, every number but the first six of the last line is
    /// ``AttemptFailure/Fault/network``. Otherwise other numbers are ``AttemptFailure/Fault/unknown``.
    ///
    /// ```swift
    /// policy.errno { ($0 as? POSIXError)?.code.rawValue }
    /// ```
    public func errno(for number: @escaping @Sendable (any Error) -> Int32?) -> RetryPolicy {
        with { $0.classification.errnoReaders.append(number) }
    }

    /// Limits the duration of each attempt; `nil` sets no limit.
    ///
    /// At the limit the attempt is cancelled and awaited, and counts as failed with ``RetryError/attemptTimedOut`` unless it
    /// succeeds. The time begins with the operation; the time between attempts does not count.
    public func attemptTimeout(_ timeout: Duration?) -> RetryPolicy { with { $0.attemptTimeout = timeout } }

    /// Sets the behavior of a job while offline.
    public func connectivity(_ connectivity: Connectivity) -> RetryPolicy { with { $0.connectivity = connectivity } }

    /// Sets the losses that cancel a running attempt.
    ///
    /// Without this modifier a bus uses ``InterruptionRule/never``, and `ReachableHTTP` uses
    /// ``InterruptionRule/whenSourceIsLost(grace:)`` with 5 s.
    public func interruptsAttempt(_ rule: InterruptionRule) -> RetryPolicy { with { $0.interruption = rule } }

    /// Sets the interruption rule if the policy has none.
    package func interruptsAttempt(unlessSet rule: InterruptionRule) -> RetryPolicy {
        rules.interruption == nil ? interruptsAttempt(rule) : self
    }

    /// Sets the growth of the backoff after a reconnect ended a delay.
    public func onReconnect(_ rule: ReconnectRule) -> RetryPolicy { with { $0.reconnect = rule } }

    /// Exempts the job from the bus's ``ReleasePolicy``, so that it starts as soon as its scope is satisfied.
    ///
    /// For a job that must not wait for others, such as a sign-in that they need. ``RetryBus/Configuration/maxConcurrent`` and
    /// delays ordered by a server still apply.
    public func bypassesGate() -> RetryPolicy { with { $0.bypassesGate = true } }

    /// Limits the running attempts of the job's destination; `nil` leaves the limit to the bus.
    package func maxConcurrentPerDestination(_ count: Int?) -> RetryPolicy { with { $0.maxConcurrentPerDestination = count } }

    /// Calls a handler with the report of each job that gives up, before its caller gets the error.
    ///
    /// Handlers add up. The job's task calls them in order, where the operation ran, while its caller waits. They are not called
    /// for cancelled jobs.
    public func onGiveUp(_ handler: @escaping @Sendable (GiveUp) -> Void) -> RetryPolicy {
        with { $0.giveUpHandlers.append(handler) }
    }
    /// Throws the ``GiveUp`` report of a job that gives up instead of its last error.
    ///
    /// The report has the reason, the attempts, the times and the last error. For callers that show or log the error and do not use
    /// ``onGiveUp(_:)``. Cancelled jobs still throw `CancellationError`, and rejected jobs a ``RetryError``.
    public func throwsReport() -> RetryPolicy { with { $0.throwsReport = true } }
}
