internal import CNetlink
internal import Glibc

/// Requests and their answers, on a socket that serves nothing else.
struct KernelRequests: ~Copyable {
    /// The kernel marks a dump that changed while it was made (NLM_F_DUMP_INTR); then it is made again, this often at most.
    private static let dumpAttempts = 5

    private let socket: NetlinkSocket
    private let buffer = ReceiveBuffer()

    init(namespace: String?) throws(ReachabilityError) {
        socket = try NetlinkSocket.forRequests(namespace: namespace)
    }

    /// All links with their addresses.
    borrowing func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        for _ in 1..<Self.dumpAttempts {
            if let interfaces = try consistentInterfaces() { return interfaces }
        }
        // Whatever keeps changing announces itself: the events that follow correct what this dump got wrong.
        return try consistentInterfaces(acceptInterrupted: true) ?? []
    }

    /// One look-up.
    borrowing func route(_ query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        var request = query.request
        let operation = "RTM_GETROUTE \(query.destination)"
        let sequence = try socket.send(operation) { cnl_request_route($0, &request, $1) }
        while true {
            var verdict: RouteVerdict?
            try receive(operation) { message in
                guard message.sequence == sequence else { return }
                switch message.kind {
                case CNL_ROUTE: verdict = RouteVerdict(message.route, isMatch: query.wantsMatch)
                case CNL_ERROR where message.error != 0: verdict = .refused(errno: message.error)
                default: break
                }
            }
            if let verdict { return verdict }
        }
    }

    /// Links and addresses, or `nil` if either dump was interrupted.
    private borrowing func consistentInterfaces(acceptInterrupted: Bool = false) throws(ReachabilityError) -> [NetworkInterface]? {
        var interfaces: [NetworkInterface] = []
        var positions: [UInt32: Int] = [:]
        let linksAreWhole = try dump("RTM_GETLINK", cnl_request_links) { message in
            guard message.kind == CNL_LINK else { return }
            positions[message.link.index] = interfaces.count
            interfaces.append(NetworkInterface(message.link))
        }
        guard linksAreWhole || acceptInterrupted else { return nil }
        let addressesAreWhole = try dump("RTM_GETADDR", cnl_request_addresses) { message in
            guard message.kind == CNL_ADDRESS, let position = positions[message.address.interface],
                let address = MessageDecoder.address(message.address)
            else { return }
            interfaces[position].addresses.append(address)
        }
        return addressesAreWhole || acceptInterrupted ? interfaces : nil
    }

    /// Makes a dump.
    ///
    /// Returns false if it was interrupted.
    private borrowing func dump(
        _ operation: String, _ request: (OpaquePointer, UnsafeMutablePointer<UInt32>) -> Int32, _ body: (cnl_message) -> Void
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
        try NetlinkSocket.check(-(end ?? 0), operation)
        return isWhole
    }

    private borrowing func receive(_ operation: String, _ body: (cnl_message) -> Void) throws(ReachabilityError) {
        var datagram = cnl_datagram()
        let length = socket.receive(into: buffer.bytes, &datagram)
        guard length >= 0 else {
            // SO_RCVTIMEO ends a wait with EAGAIN (socket(7)).
            throw ReachabilityError(
                .requestFailed, errno: length == -Int(EAGAIN) ? ETIMEDOUT : Int32(-length), operation: operation)
        }
        guard !datagram.is_truncated else { throw ReachabilityError(.requestFailed, errno: EMSGSIZE, operation: operation) }
        guard datagram.port == 0 else { return }
        MessageDecoder.forEach(in: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<length]), body)
    }
}

/// Memory for one datagram.
struct ReceiveBuffer: ~Copyable {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(CNL_BUFFER_SIZE), alignment: 16)

    deinit { bytes.deallocate() }
}
