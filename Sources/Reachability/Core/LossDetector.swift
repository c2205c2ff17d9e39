/// The detection of lost events and deaf sockets, by the drop counter of the event socket.
///
/// Pure.
///
/// The counter counts every loss; ENOBUFS reports only the first since the queue was last empty. The counter also reveals a deaf
/// socket, which drops datagrams although its queue is empty, and would never report that.
package struct LossDetector: Equatable, Sendable {
    /// The state of the socket after all reads.
    package struct Reading: Sendable {
        /// The number of datagrams dropped since the socket was opened, wrapping around; `nil` if unknown.
        package var drops: UInt32?
        /// True if a datagram or an error was read since the last reading.
        package var hasHeard: Bool
        /// True if a read reported a loss: ENOBUFS, or a datagram that did not fit.
        package var hasError: Bool
        /// The number of dumps that failed in a row.
        package var failedDumps: Int

        package init(drops: UInt32?, hasHeard: Bool, hasError: Bool = false, failedDumps: Int = 0) {
            self.drops = drops
            self.hasHeard = hasHeard
            self.hasError = hasError
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

    private var known: UInt32 = 0
    private var answeredFailures = 0
    private var isSuspicious = false

    package init() {}

    /// Takes in a reading.
    ///
    /// - Returns: the conclusion, and the number of datagrams dropped since the last reading.
    package mutating func note(_ reading: Reading) -> (finding: Finding, drops: UInt32) {
        let drops = (reading.drops ?? known) &- known
        known &+= drops
        let isStillSilent = isSuspicious && !reading.hasHeard
        let wasSuspicious = isSuspicious
        isSuspicious = false
        if isStillSilent || hasNewFailures(reading.failedDumps) { return (.reopen, drops) }
        if drops > 0 && !reading.hasHeard {
            isSuspicious = true
            return (.silentDrops, drops)
        }
        return (drops > 0 || reading.hasError || wasSuspicious ? .loss : .nothing, drops)
    }

    /// Returns true if the drop counter moved since the last reading.
    package func isNews(_ drops: UInt32) -> Bool { drops != known }

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
