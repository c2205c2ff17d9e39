/// Tells from the event socket's drop counter whether events were lost, and whether the socket has gone deaf.
///
/// Pure.
///
/// The counter tells of every loss; an ENOBUFS only of the first since the queue was last empty. And it gives away a socket that
/// drops what comes although nothing is left to be read: it would neither say nor hear anything any more.
package struct LossDetector: Equatable, Sendable {
    /// What was seen of the socket, after everything was read.
    package struct Reading: Sendable {
        /// How many datagrams the kernel has dropped since the socket was opened; `nil` if it does not tell.
        ///
        /// The number wraps around.
        package var drops: UInt32?
        /// Whether anything was read since the last reading, be it an error.
        package var hasHeard: Bool
        /// Whether a read said that something was lost: ENOBUFS, or a datagram that did not fit.
        package var hasError: Bool
        /// How many dumps have failed in a row.
        package var failedDumps: Int

        package init(drops: UInt32?, hasHeard: Bool, hasError: Bool = false, failedDumps: Int = 0) {
            self.drops = drops
            self.hasHeard = hasHeard
            self.hasError = hasError
            self.failedDumps = failedDumps
        }
    }

    /// What follows from a reading.
    package enum Finding: Equatable, Sendable {
        case nothing
        /// Events were lost.
        case loss
        /// The kernel dropped something, and there was nothing to read.
        ///
        /// It may have come after the last read: read again. If there is still nothing, the socket is deaf.
        case silentDrops
        /// Events were lost or may be missing, and a new socket is the remedy.
        case reopen
    }

    /// After this many failed dumps in a row nothing about the source is believed any more.
    private static let failureLimit = 3

    private var known: UInt32 = 0
    private var answeredFailures = 0
    private var isSuspicious = false

    package init() {}

    /// Judges a reading.
    ///
    /// Returns what follows, and how many datagrams were dropped since the last one.
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

    /// Whether the drop counter has moved since the last reading.
    package func isNews(_ drops: UInt32) -> Bool { drops != known }

    /// Starts anew with a socket that was just opened.
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
