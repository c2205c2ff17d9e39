/// The detection of lost events and deaf sockets, by the drop counter of the event socket.
///
/// Pure.
///
/// The counter counts every loss; ENOBUFS reports only the first since the queue was last empty. The counter also reveals a deaf
/// socket, which drops datagrams although its queue is empty, and would never report that.
///
/// The counter is compared when the queue is empty. Most datagrams come alone: their comparison waits until the tasks that the
/// delivery woke have run.
package struct LossDetector: Equatable, Sendable {
    /// The state of the socket after all reads.
    package struct Reading: Sendable {
        /// The number of datagrams dropped since the socket was opened, wrapping around; `nil` if unknown.
        package var drops: UInt32?
        /// The number of dumps that failed in a row.
        package var failedDumps: Int

        package init(drops: UInt32?, failedDumps: Int = 0) {
            self.drops = drops
            self.failedDumps = failedDumps
        }
    }

    /// The conclusion from a reading.
    package enum Finding: Equatable, Sendable {
        case nothing
        /// Events were lost.
        case loss
        /// The kernel dropped datagrams, and there was nothing to read.
        ///
        /// They may have come after the last read: read again. If there is still nothing, the socket is deaf.
        case silentDrops
        /// Events were lost or may be missing: open a new socket.
        case reopen
    }

    /// The number of failed dumps in a row after which a new socket is opened.
    private static let failureLimit = 3
    /// The maximum number of datagrams in a batch, so that a flood cannot delay the verdict.
    private static let batchLimit = 256
    /// The maximum number of datagrams that are drained after a loss, before the next delivery: more than any receive buffer holds.
    ///
    /// The queue must be emptied first: until then the kernel drops every further event without another error
    /// (netlink_overrun, NETLINK_S_CONGESTED).
    package static let drainLimit = 200_000
    /// The delay of the check after a lone datagram.
    private static let checkDelay: Duration = .milliseconds(10)

    private var known: UInt32
    private var answeredFailures = 0
    private var isSuspicious = false
    /// True if a datagram or an error was read since the last reading.
    private var hasHeard = false
    /// True if a read reported a loss since the last reading: ENOBUFS, or a datagram that did not fit.
    package private(set) var isLossy = false
    /// True if a lone datagram was delivered without a check.
    private var owesCheck = false
    /// The time of the deferred check; not later because of further lone datagrams.
    private var checkDue: Duration?

    /// - Parameter drops: The drop counter of a socket that others have read before.
    package init(drops: UInt32 = 0) { known = drops }

    // MARK: - Reading the queue

    /// The maximum number of datagrams that are read before the next delivery.
    package var readLimit: Int { isLossy ? Self.drainLimit : Self.batchLimit }

    /// Takes in a read of datagrams.
    ///
    /// - Parameter isFirst: true for the first read since the last delivery, which had room for a second datagram.
    /// - Returns: true if the datagram is alone: the queue is empty, and the check is deferred.
    package mutating func note(datagrams: Int, isFirst: Bool) -> Bool {
        hasHeard = true
        guard isFirst && datagrams == 1 && !isLossy else { return false }
        owesCheck = true
        return true
    }

    /// Takes in an error that reports a loss.
    package mutating func noteLossError() {
        hasHeard = true
        isLossy = true
    }

    /// Takes in a datagram that did not fit.
    package mutating func noteTruncation() { isLossy = true }

    // MARK: - Deferred checks

    /// The time of the deferred check; `nil` if there is none.
    package var deferredCheck: Duration? { owesCheck ? checkDue : nil }

    /// Returns true if the deferred check is due, which the caller then makes; sets its time after the first delivery.
    package mutating func takeDeferredCheck(at now: Duration) -> Bool {
        guard owesCheck else { return false }
        guard let due = checkDue else {
            checkDue = now.saturatingAdd(Self.checkDelay)
            return false
        }
        guard due <= now else { return false }
        (checkDue, owesCheck) = (nil, false)
        return true
    }

    /// Compares the counter at a deferred check; returns true after a loss, for which the queue has to be read again.
    ///
    /// The kernel reports no further loss until the queue was empty once.
    package mutating func noteDeferred(drops: UInt32) -> Bool {
        guard drops != known else { return false }
        isLossy = true
        return true
    }

    /// Begins the next reads; the check that is owed is made after them.
    package mutating func beginReading() { owesCheck = false }

    /// Returns true if a check follows the reads.
    ///
    /// - Parameter hasMore: true if the queue was not read to its end.
    package mutating func takeCheck(hasMore: Bool) -> Bool {
        guard !hasMore && !owesCheck else { return false }
        checkDue = nil
        return true
    }

    // MARK: - Checks

    /// Takes in a reading, after the queue was read to its end.
    ///
    /// - Returns: the conclusion, and the number of datagrams dropped since the last reading.
    package mutating func note(_ reading: Reading) -> (finding: Finding, drops: UInt32) {
        let drops = (reading.drops ?? known) &- known
        known &+= drops
        let (wasSuspicious, hadHeard, wasLossy) = (isSuspicious, hasHeard, isLossy)
        (isSuspicious, hasHeard, isLossy) = (false, false, false)
        let isStillSilent = wasSuspicious && !hadHeard
        if isStillSilent || hasNewFailures(reading.failedDumps) { return (.reopen, drops) }
        if drops > 0 && !hadHeard {
            isSuspicious = true
            return (.silentDrops, drops)
        }
        return (drops > 0 || wasLossy || wasSuspicious ? .loss : .nothing, drops)
    }

    /// Resets the state for a new socket.
    package mutating func noteReopened() {
        known = 0
        isSuspicious = false
    }

    private mutating func hasNewFailures(_ failures: Int) -> Bool {
        if failures < answeredFailures { answeredFailures = 0 }
        guard failures - answeredFailures >= Self.failureLimit else { return false }
        answeredFailures = failures
        return true
    }
}
