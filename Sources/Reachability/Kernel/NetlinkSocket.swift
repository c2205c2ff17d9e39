internal import CNetlink
internal import Glibc

/// An rtnetlink socket, closed when it goes out of scope.
///
/// One thread at a time.
struct NetlinkSocket: ~Copyable {
    /// How long the kernel may take to answer a request; it takes microseconds.
    private static let replyTimeout: UInt32 = 2000

    private let handle: OpaquePointer
    /// The size of an event socket's receive buffer in bytes, as the kernel granted it.
    private(set) var receiveBuffer: Int?
    /// The epoll set that reports the socket.
    private var epoll: Int32?

    /// Opens a socket in a network namespace, by default in the calling thread's.
    init(namespace: String?) throws(ReachabilityError) {
        var handle: OpaquePointer?
        var operation: UnsafePointer<CChar>?
        let result = cnl_open(&handle, namespace, &operation)
        guard result == 0, let handle else {
            throw ReachabilityError(opening: operation.map { String(cString: $0) } ?? "netlink socket", namespace, errno: -result)
        }
        self.handle = handle
    }

    deinit {
        // Closing removes nothing while a copy of the descriptor lives, such as one that a fork(2) has just made: the set would
        // report the socket for ever, and by a number that is another file's by then (epoll(7), questions and answers, 6).
        // A set that was closed first, its number now another file's, has no such entry: EBADF, EINVAL or ENOENT.
        if let epoll { _ = cnl_epoll_remove(epoll, descriptor) }
        cnl_close(handle)
    }

    /// A socket for requests: strict, blocking, with a bounded wait for answers.
    static func forRequests(namespace: String?) throws(ReachabilityError) -> NetlinkSocket {
        let socket = try NetlinkSocket(namespace: namespace)
        // Without strict checking the kernel ignores what it does not understand (NETLINK_GET_STRICT_CHK, netlink(7)); older
        // kernels than 4.20 lack it and answer the same requests all the same.
        _ = cnl_set_strict(socket.handle)
        try check(cnl_set_receive_timeout(socket.handle, replyTimeout), "setsockopt(SO_RCVTIMEO)")
        return socket
    }

    /// A socket for events: non-blocking, with a filter, member of all groups, reported by an epoll set with this bit.
    static func forEvents(
        _ equipment: EventReader.Equipment, reportedBy epoll: borrowing Epoll, at bit: Int32
    ) throws(ReachabilityError) -> NetlinkSocket {
        var socket = try NetlinkSocket(namespace: equipment.namespace)
        try check(cnl_set_nonblocking(socket.handle), "fcntl(O_NONBLOCK)")
        var granted: UInt32 = 0
        try check(cnl_set_receive_buffer(socket.handle, equipment.receiveBuffer, &granted), "setsockopt(SO_RCVBUF)")
        socket.receiveBuffer = Int(granted)
        // Before the first event can come.
        equipment.filter.attach(to: socket.descriptor)
        let groups = UnsafeBufferPointer(start: cnl_groups(), count: cnl_group_count())
        do throws(ReachabilityError) {
            for group in groups { try join(group, socket.handle) }
            try socket.report(to: epoll, at: bit)
        } catch {
            // The descriptor is closed now, and will soon be another file's.
            equipment.filter.detach()
            throw error
        }
        return socket
    }

    /// Has an epoll set report the socket with this bit, until the socket is closed.
    mutating func report(to epoll: borrowing Epoll, at bit: Int32) throws(ReachabilityError) {
        try epoll.add(descriptor, at: bit)
        self.epoll = epoll.descriptor
    }

    private static func join(_ group: UInt32, _ handle: OpaquePointer) throws(ReachabilityError) {
        let result = cnl_join(handle, group)
        // A kernel that does not know a group has nothing to announce in it: nexthop objects came with Linux 5.3. Links are
        // announced by every kernel that announces anything.
        guard result < 0, result != -EINVAL || group == CNL_GROUP_LINK else { return }
        let isPassing = [-ENOMEM, -ENOBUFS, -EMFILE, -ENFILE].contains(result)
        throw ReachabilityError(
            isPassing ? .resourcesExhausted : .eventsUnavailable, errno: -result,
            operation: "setsockopt(NETLINK_ADD_MEMBERSHIP, \(group))")
    }

    var descriptor: Int32 { cnl_descriptor(handle) }

    /// What waits to be read, and how many datagrams the kernel has dropped.
    ///
    /// `nil` if it does not tell (SO_MEMINFO, since Linux 4.12).
    var queue: cnl_queue? {
        var queue = cnl_queue()
        return cnl_read_queue(handle, &queue) == 0 ? queue : nil
    }

    /// Reads one datagram.
    ///
    /// Returns its length or a negative errno.
    borrowing func receive(into buffer: UnsafeMutableRawBufferPointer, _ datagram: inout cnl_datagram) -> Int {
        guard let base = buffer.baseAddress else { return -Int(EINVAL) }
        return Int(cnl_receive(handle, base, buffer.count, &datagram))
    }

    /// Reads as many datagrams as there are, at most so many.
    ///
    /// Returns their number or a negative errno.
    borrowing func receive(_ count: Int, into buffer: borrowing DatagramBuffer) -> Int {
        Int(cnl_receive_many(handle, buffer.bytes, buffer.datagrams, count))
    }

    /// Makes look-ups and waits for their answers, one for each query.
    ///
    /// Returns 0 or a negative errno.
    borrowing func lookUp(
        _ queries: UnsafePointer<cnl_route_query>, _ count: Int, _ space: UnsafeMutableRawPointer,
        _ answers: UnsafeMutablePointer<cnl_message>
    ) -> Int32 { cnl_lookup(handle, queries, count, space, answers) }

    /// Sends a request and returns its sequence number.
    borrowing func send(
        _ operation: @autoclosure () -> String, _ body: (OpaquePointer, UnsafeMutablePointer<UInt32>) -> Int32
    ) throws(ReachabilityError) -> UInt32 {
        var sequence: UInt32 = 0
        let result = body(handle, &sequence)
        try Self.check(result, operation())
        return sequence
    }

    static func check(_ result: Int32, _ operation: @autoclosure () -> String) throws(ReachabilityError) {
        guard result < 0 else { return }
        let code: ReachabilityError.Code =
            switch -result {
            case EPERM, EACCES: .permissionDenied
            case EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC: .resourcesExhausted
            default: .requestFailed
            }
        throw ReachabilityError(code, errno: -result, operation: operation())
    }
}

extension ReachabilityError {
    /// The error for a socket that could not be opened.
    fileprivate init(opening operation: String, _ namespace: String?, errno: Int32) {
        switch (operation, errno) {
        case (_, EMFILE), (_, ENFILE), (_, ENOMEM), (_, ENOBUFS), (_, EAGAIN):
            self.init(.resourcesExhausted, errno: errno, operation: operation)
        case ("open", _), ("setns", _):
            let isForbidden = errno == EPERM || errno == EACCES
            let operation = "\(operation)(\(namespace ?? ""))"
            self.init(isForbidden ? .permissionDenied : .namespaceUnavailable, errno: errno, operation: operation)
        default:
            self.init(.netlinkUnavailable, errno: errno, operation: operation)
        }
    }
}
