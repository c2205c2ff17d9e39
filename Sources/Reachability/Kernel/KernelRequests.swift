internal import CNetlink
internal import Glibc

/// Requests and their answers, on a socket that serves nothing else.
struct KernelRequests: ~Copyable {
    private let socket: NetlinkSocket
    private let buffer = ReceiveBuffer()
    private let answers = AnswerBuffer()

    init(namespace: String?) throws(ReachabilityError) {
        socket = try NetlinkSocket.forRequests(namespace: namespace)
    }

    /// Look-ups, with the answers in the order of the queries.
    borrowing func routes(_ queries: [RouteQuery]) throws(ReachabilityError) -> [Result<RouteVerdict, ReachabilityError>] {
        var verdicts: [Result<RouteVerdict, ReachabilityError>] = []
        verdicts.reserveCapacity(queries.count)
        let limit = Int(CNL_LOOKUP_LIMIT)
        for start in stride(from: 0, to: queries.count, by: limit) {
            try lookUp(queries[start..<min(start + limit, queries.count)], &verdicts)
        }
        return verdicts
    }

    /// Look-ups that fit into one call.
    private borrowing func lookUp(
        _ queries: ArraySlice<RouteQuery>, _ verdicts: inout [Result<RouteVerdict, ReachabilityError>]
    ) throws(ReachabilityError) {
        let count = queries.count
        let result = withUnsafeTemporaryAllocation(of: cnl_route_query.self, capacity: count) { requests -> Int32 in
            _ = requests.initialize(from: queries.lazy.map(\.request))
            guard let request = requests.baseAddress, let space = buffer.bytes.baseAddress else { return -EINVAL }
            let result = socket.lookUp(request, count, space, answers.messages)
            guard result == 0 else { return result }
            for (index, query) in queries.enumerated() {
                let answer = answers.messages + index
                let isRoute = answer.pointee.kind == CNL_ROUTE
                verdicts.append(
                    .success(isRoute ? RouteVerdict(answer.pointee.route, to: query) : .refused(errno: answer.pointee.error)))
            }
            return 0
        }
        // Not put into words before something fails: this lies between each event and its verdict.
        try NetlinkSocket.check(
            result, "RTM_GETROUTE \(queries.map { "\($0.destination)" }.joined(separator: ", "))")
    }

    /// All links with their addresses.
    ///
    /// - Parameter isLast: if true, a dump that changed while it was made is taken as it is: a change announces itself.
    /// - Returns: `nil` if the dump has to be made again.
    borrowing func interfaces(isLast: Bool) throws(ReachabilityError) -> [NetworkInterface]? {
        var interfaces: [NetworkInterface] = []
        var positions: [UInt32: Int] = [:]
        let linksAreWhole = try dump("RTM_GETLINK", isLast, cnl_request_links) { message in
            guard message.kind == CNL_LINK else { return }
            positions[message.link.index] = interfaces.count
            interfaces.append(NetworkInterface(message.link))
        }
        guard linksAreWhole || isLast else { return nil }
        let addressesAreWhole = try dump("RTM_GETADDR", isLast, cnl_request_addresses) { message in
            guard message.kind == CNL_ADDRESS, let position = positions[message.address.interface],
                let address = MessageDecoder.address(message.address)
            else { return }
            interfaces[position].addresses.append(address)
        }
        return addressesAreWhole || isLast ? interfaces : nil
    }

    /// Makes a dump.
    ///
    /// Returns false if it was interrupted, or the kernel was busy with another one (EBUSY; the last time an error).
    private borrowing func dump(
        _ operation: String, _ isLast: Bool, _ request: (OpaquePointer, UnsafeMutablePointer<UInt32>) -> Int32,
        _ body: (cnl_message) -> Void
    ) throws(ReachabilityError) -> Bool {
        let sequence = try socket.send(operation, request)
        var isWhole = true
        var end: Int32?
        while end == nil {
            try receive(operation) { message in
                guard message.sequence == sequence else { return }
                if message.is_interrupted { isWhole = false }
                // A dump that the kernel refuses ends with the error inside NLMSG_DONE: it is not an empty dump.
                if message.kind == CNL_DONE || message.kind == CNL_ERROR { end = message.error } else { body(message) }
            }
        }
        if end == EBUSY && !isLast { return false }
        try NetlinkSocket.check(-(end ?? 0), operation)
        return isWhole
    }

    private borrowing func receive(_ operation: @autoclosure () -> String, _ body: (cnl_message) -> Void) throws(ReachabilityError)
    {
        var datagram = cnl_datagram()
        let length = socket.receive(into: buffer.bytes, &datagram)
        guard length >= 0 else {
            // SO_RCVTIMEO ends a wait with EAGAIN (socket(7)).
            throw ReachabilityError(
                .requestFailed, errno: length == -Int(EAGAIN) ? ETIMEDOUT : Int32(-length), operation: operation())
        }
        guard !datagram.is_truncated else { throw ReachabilityError(.requestFailed, errno: EMSGSIZE, operation: operation()) }
        guard datagram.port == 0 else { return }
        MessageDecoder.forEach(in: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<length]), body)
    }
}
