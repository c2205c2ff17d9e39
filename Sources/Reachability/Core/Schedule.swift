/// When to look again: shortly after a hint that may precede its change, and now and then in any case.
package struct Schedule: Equatable, Sendable {
    /// Link, address, rule, nexthop and netconf messages, and those about IPv4 routes that are removed, may be read before the
    /// change that they announce is made; in 2 to 13 of 100 deletions of a last address the routes are flushed after the message
    /// was read, and nothing follows it.
    package static let reevaluations: [Duration] = [.milliseconds(2), .milliseconds(50)]
    /// The pace of verdicts while more is waiting to be read.
    package static let pace: Duration = .milliseconds(1)
    /// The pace of repeated attempts after a request that failed.
    private static let firstRetry: Duration = .milliseconds(50)
    /// The first pause before a dump that was interrupted is made again.
    private static let firstRestart: Duration = .milliseconds(10)
    private static let lastRetry: Duration = .seconds(5)

    private let auditInterval: Duration?
    private let auditIntervalWhileUnsatisfied: Duration?
    private let pollInterval: Duration
    /// Whether audits have to stand in for events.
    var isPolled = false
    /// The re-evaluations still to come, earliest first.
    private var due: [Duration] = []
    private var lastAudit: Duration?
    /// When a failed request is to be tried again.
    package private(set) var retry: Duration?
    private var retryDelay: Duration = .zero
    package private(set) var lastEvaluation: Duration?

    package init(auditInterval: Duration?, auditIntervalWhileUnsatisfied: Duration?, pollInterval: Duration = .seconds(2)) {
        self.pollInterval = max(pollInterval, .milliseconds(1))
        self.auditInterval = auditInterval.map { max($0, .milliseconds(1)) }
        self.auditIntervalWhileUnsatisfied = auditIntervalWhileUnsatisfied.map { max($0, .milliseconds(1)) }
    }

    /// Whether nothing is to be looked at again because of a hint.
    package var isSettled: Bool { due.isEmpty }

    package mutating func noteHint(at now: Duration) {
        due.removeAll(keepingCapacity: true)
        for pause in Self.reevaluations { due.append(now.saturatingAdd(pause)) }
    }

    package mutating func noteEvaluation(at now: Duration) {
        lastEvaluation = now
        due.removeAll { $0 <= now }
    }

    package mutating func noteAudit(at now: Duration) {
        lastAudit = now
    }

    package mutating func noteFailure(at now: Duration, isInterruption: Bool = false) {
        let first = isInterruption ? Self.firstRestart : Self.firstRetry
        retryDelay = retry == nil ? first : min(retryDelay * 2, Self.lastRetry)
        retry = now.saturatingAdd(retryDelay)
    }

    package mutating func noteSuccess() {
        retry = nil
    }

    package func isReevaluationDue(at now: Duration) -> Bool { due.first.map { $0 <= now } ?? false }

    package func isRetryDue(at now: Duration) -> Bool { retry.map { $0 <= now } ?? false }

    package func isAuditDue(at now: Duration, unsatisfied: Bool) -> Bool {
        nextAudit(unsatisfied: unsatisfied).map { $0 <= now } ?? false
    }

    /// The earliest of everything that is scheduled but the retry.
    package func next(unsatisfied: Bool) -> Duration? {
        Duration.earlier(due.first, nextAudit(unsatisfied: unsatisfied))
    }

    private func nextAudit(unsatisfied: Bool) -> Duration? {
        let usual = unsatisfied ? auditIntervalWhileUnsatisfied : auditInterval
        guard let lastAudit, let interval = isPolled ? min(pollInterval, usual ?? pollInterval) : usual else { return nil }
        return lastAudit.saturatingAdd(interval)
    }
}

/// When to dump links and addresses after losses: at once after the first, then at a slowing pace as long as losses go on.
///
/// Pure.
///
/// A machine that is flooded loses events all the time, and a dump for each loss would keep it busy with nothing else.
package struct ResyncBackoff: Equatable, Sendable {
    private static let first: Duration = .milliseconds(50)
    private static let last: Duration = .seconds(5)

    /// Whether events were lost since the last dump, so that the table of interfaces may be wrong.
    package private(set) var isPending = false
    private var earliest: Duration?
    private var pause = first

    package init() {}

    /// When the next dump is due; `nil` if nothing was lost since the last one.
    package var due: Duration? { isPending ? earliest ?? .zero : nil }

    package func isDue(at now: Duration) -> Bool { due.map { $0 <= now } ?? false }

    package mutating func noteLoss(at now: Duration) {
        // The pause after the last dump has passed without a loss: the flood is over.
        if !isPending, earliest.map({ $0 <= now }) ?? true { pause = Self.first }
        isPending = true
    }

    /// Notes a dump, made for whatever reason.
    package mutating func noteDump(at now: Duration) {
        guard isPending else { return }
        isPending = false
        earliest = now.saturatingAdd(pause)
        pause = min(pause * 2, Self.last)
    }
}
