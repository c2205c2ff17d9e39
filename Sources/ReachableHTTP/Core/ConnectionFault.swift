/// What a client's error stands for if there was no whole response: the words that a classifier understands.
///
/// Clients have types of their own for what went wrong with a connection; they are translated to this, and judged alike.
package struct ConnectionFault: Hashable, Sendable {
    /// As a code of `URLError`; `nil` if it is no error of a connection.
    package var errorCode: Int?
    /// The system's error behind it, as `HTTPFailure.systemError`; `nil` if the client does not tell.
    package var systemError: Int32?
    /// As `HTTPFailure.wasSent`.
    package var wasSent: Bool?

    package init(_ errorCode: Int?, systemError: Int32? = nil, wasSent: Bool? = nil) {
        (self.errorCode, self.systemError, self.wasSent) = (errorCode, systemError, wasSent)
    }

    /// What the system reported to a client.
    ///
    /// - Parameter isConnecting: If true, the system reported it before there was a connection.
    package init(systemError: Int32, isConnecting: Bool = false) {
        self.systemError = systemError
        // The system never says these of a connection that is there: ENFILE, EMFILE, EADDRNOTAVAIL, ECONNREFUSED.
        wasSent = isConnecting || [23, 24, 99, 111].contains(systemError) ? false : nil
        errorCode =
            switch systemError {
            case 100, 101: -1009  // ENETDOWN, ENETUNREACH
            case 99, 111, 112, 113: -1004  // EADDRNOTAVAIL, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH
            case 110: -1001  // ETIMEDOUT
            case 32, 102, 103, 104, 107, 108: -1005  // EPIPE, ENETRESET, ECONNABORTED, ECONNRESET, ENOTCONN, ESHUTDOWN
            default: -1
            }
    }

    /// What stands for several: each is of an attempt to connect to one of a host's addresses; `nil` if there are none.
    ///
    /// The one that says most: somebody refused; or somebody was looked for; and only then, that there is no way to a family.
    package init?(anyOf faults: [ConnectionFault]) {
        let noWay: [Int32?] = [100, 101]
        guard
            let fault = faults.first(where: { $0.systemError == 111 })
                ?? faults.first(where: { !noWay.contains($0.systemError) }) ?? faults.first
        else { return nil }
        self = fault
        wasSent = false
    }
}
