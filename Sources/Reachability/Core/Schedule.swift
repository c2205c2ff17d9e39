/// The times at which the monitor acts without an event: re-evaluations, audits, retries and dumps.
///
/// Pure.
package struct Schedule: Equatable, Sendable {
    /// The pauses after an event that may precede its change.
    ///
    /// In 2 to 13 of 100 deletions of a last address the kernel flushes the routes after the message was read, and no message
    /// follows.
    package static let reevaluations: [Duration] = [.milliseconds(2), .milliseconds(50)]
    /// The pace of evaluations while more events wait to be read.
    package static let pace: Duration = .milliseconds(1)
    /// The first pause before failed requests are repeated.
    private static let firstRetry: Duration = .milliseconds(50)
    /// The first pause before an interrupted dump is repeated.
    private static let firstRestart: Duration = .milliseconds(10)
    private static let lastRetry: Duration = .seconds(5)

    /// The state of requests to the kernel.
    private enum Requests: Equatable {
        case answered
        /// Some of the last requests failed, or all of them.
        case failing(retry: Duration, delay: Duration, isTotal: Bool)
    }

    /// The state of the interface table.
    private enum Table: Equatable {
        /// As current as events make it.
        case current
        /// Read again with the next evaluation.
        case stale
        /// Read again with the next retry: the last dump failed.
        case failing
    }

    private let auditInterval: Duration?
    private let auditIntervalWhileUnsatisfied: Duration?
    private let pollInterval: Duration
    /// True while the source hears no events, so that audits replace them.
    var isPolled = false
    /// The pending re-evaluations, earliest first.
    private var due: [Duration] = []
    private var lastAudit: Duration?
    package private(set) var lastEvaluation: Duration?
    private var requests = Requests.answered
    private var table = Table.stale
    /// True from a resume until the next dump.
    private var hasResumed = false
    /// The losses of events.
    package private(set) var losses = ResyncBackoff()

    package init(auditInterval: Duration?, auditIntervalWhileUnsatisfied: Duration?, pollInterval: Duration = .seconds(2)) {
        self.pollInterval = max(pollInterval, .milliseconds(1))
        self.auditInterval = auditInterval.map { max($0, .milliseconds(1)) }
        self.auditIntervalWhileUnsatisfied = auditIntervalWhileUnsatisfied.map { max($0, .milliseconds(1)) }
    }

    /// The earliest time of everything that is scheduled.
    package func next(unsatisfied: Bool) -> Duration? {
        // While all requests fail only the retry counts: anything that is due already would fail again at once.
        if case .failing(let retry, _, isTotal: true) = requests { return retry }
        return Duration.earlier(
            Duration.earlier(due.first, nextAudit(unsatisfied: unsatisfied)), Duration.earlier(losses.due, retry))
    }

    // MARK: - Evaluations and audits

    /// True if no re-evaluation is pending.
    package var isSettled: Bool { due.isEmpty }

    /// Schedules re-evaluations after an event that may precede its change.
    package mutating func noteEarlyEvent(at now: Duration) {
        due.removeAll(keepingCapacity: true)
        for pause in Self.reevaluations { due.append(now.saturatingAdd(pause)) }
    }

    package mutating func noteEvaluation(at now: Duration) {
        lastEvaluation = now
        due.removeAll { $0 <= now }
    }

    package func isReevaluationDue(at now: Duration) -> Bool { due.first.map { $0 <= now } ?? false }

    package mutating func noteAudit(at now: Duration) { lastAudit = now }

    package func isAuditDue(at now: Duration, unsatisfied: Bool) -> Bool {
        nextAudit(unsatisfied: unsatisfied).map { $0 <= now } ?? false
    }

    private func nextAudit(unsatisfied: Bool) -> Duration? {
        let usual = unsatisfied ? auditIntervalWhileUnsatisfied : auditInterval
        guard let lastAudit, let interval = isPolled ? min(pollInterval, usual ?? pollInterval) : usual else { return nil }
        return lastAudit.saturatingAdd(interval)
    }

    // MARK: - Retries

    /// The time at which failed requests are repeated; `nil` if none failed.
    package var retry: Duration? {
        if case .failing(let retry, _, _) = requests { retry } else { nil }
    }

    package func isRetryDue(at now: Duration) -> Bool { retry.map { $0 <= now } ?? false }

    /// Schedules a retry.
    ///
    /// - Parameters:
    ///   - isInterruption: true if dumps were interrupted and nothing else failed.
    ///   - isTotal: true if no request was answered.
    package mutating func noteFailure(at now: Duration, isInterruption: Bool = false, isTotal: Bool = false) {
        var delay = isInterruption ? Self.firstRestart : Self.firstRetry
        if case .failing(_, let last, _) = requests { delay = min(last * 2, Self.lastRetry) }
        requests = .failing(retry: now.saturatingAdd(delay), delay: delay, isTotal: isTotal)
    }

    package mutating func noteSuccess() { requests = .answered }

    // MARK: - Dumps

    /// True if the interface table has to be read again.
    package var needsDump: Bool { table != .current }

    /// Returns false while a failed dump waits for its retry.
    package func mayDump(at now: Duration) -> Bool { table != .failing || isRetryDue(at: now) }

    /// Has the interface table read again.
    package mutating func requestDump() {
        if table == .current { table = .stale }
    }

    /// Has the interface table read again after a suspension.
    package mutating func noteResume() {
        requestDump()
        hasResumed = true
    }

    /// Has the interface table read again, at once or at the pace of repeated losses.
    package mutating func noteLoss(at now: Duration) { losses.noteLoss(at: now) }

    /// Notes that the table of the last evaluation proved too old, or that its dump failed.
    package mutating func noteFailedDump(isTotal: Bool) { table = isTotal ? .failing : .stale }

    /// Notes a dump.
    ///
    /// - Returns: true if the dump made up for a loss or a suspension.
    package mutating func noteDump(at now: Duration) -> Bool {
        let isResync = hasResumed || losses.isPending
        (table, hasResumed) = (.current, false)
        losses.noteDump(at: now)
        return isResync
    }

    /// Notes that the changes since a loss were published.
    package mutating func notePublication() { losses.notePublication() }
}

/// The times of dumps after losses: at once after the first, then at a slowing pace while losses go on.
///
/// Pure. A flooded machine loses events all the time, and a dump after each loss would take all of its time.
package struct ResyncBackoff: Equatable, Sendable {
    private static let first: Duration = .milliseconds(50)
    private static let last: Duration = .seconds(5)

    private enum Phase: Equatable {
        case inSync
        /// Events were lost, and the table was not read since.
        case lost
        /// The table was read after a loss; its changes are not published yet.
        case dumped
    }

    private var phase = Phase.inSync
    private var earliest: Duration?
    private var pause = first

    package init() {}

    /// True if events were lost since the last dump, so that the interface table may be wrong.
    package var isPending: Bool { phase == .lost }

    /// True if the next changes may be due to a loss.
    package var explainsChanges: Bool { phase != .inSync }

    /// The time of the next dump; `nil` if no event was lost since the last one.
    package var due: Duration? { isPending ? earliest ?? .zero : nil }

    package func isDue(at now: Duration) -> Bool { due.map { $0 <= now } ?? false }

    package mutating func noteLoss(at now: Duration) {
        // The pause after the last dump passed without a loss: the flood is over.
        if !isPending, earliest.map({ $0 <= now }) ?? true { pause = Self.first }
        phase = .lost
    }

    /// Notes a dump, made for whatever reason.
    package mutating func noteDump(at now: Duration) {
        guard isPending else { return }
        phase = .dumped
        earliest = now.saturatingAdd(pause)
        pause = min(pause * 2, Self.last)
    }

    /// Notes that the changes since the last dump were published.
    package mutating func notePublication() {
        if phase == .dumped { phase = .inSync }
    }
}
