internal import CNetlink
internal import Glibc
internal import Synchronization

/// An rtnetlink socket, closed when it goes out of scope.
///
/// Used by one thread at a time.
struct NetlinkSocket: ~Copyable {
    /// The limit for the kernel's answer to a request, in milliseconds; it takes microseconds.
    private static let replyTimeout: UInt32 = 2000

    private let handle: OpaquePointer
    /// The size of an event socket's receive buffer in bytes, as granted by the kernel.
    private(set) var receiveBuffer: Int?
    /// True if it was taken over: its queue may hold earlier events.
    let isInherited: Bool
    /// The epoll instance that reports the socket.
    private var epoll: Int32?

    /// Opens a socket in a network namespace, by default the calling thread's.
    ///
    /// - Parameter isForPolicies: True for a socket of NETLINK_XFRM, which reads IPsec policies.
    init(namespace: String?, isForPolicies: Bool = false) throws(ReachabilityError) {
        var handle: OpaquePointer?
        var operation: UnsafePointer<CChar>?
        let result =
            isForPolicies ? cnl_open_policies(&handle, namespace, &operation) : cnl_open(&handle, namespace, &operation)
        guard result == 0, let handle else {
            throw ReachabilityError(opening: operation.map { String(cString: $0) } ?? "netlink socket", namespace, errno: -result)
        }
        self.handle = handle
        isInherited = false
    }

    /// Takes over a socket that ``InheritedSocket`` has checked, and owns its descriptor from then on.
    private init(takingOver descriptor: Int32) throws(ReachabilityError) {
        var handle: OpaquePointer?
        var operation: UnsafePointer<CChar>?
        let result = cnl_take_over(&handle, descriptor, &operation)
        guard result == 0, let handle else {
            cnl_close_descriptor(descriptor)
            throw ReachabilityError(failed: operation.map { String(cString: $0) } ?? "netlink socket", errno: -result)
        }
        self.handle = handle
        isInherited = true
    }

    deinit {
        // Closing removes no entry while a copy of the descriptor lives, such as one that a fork(2) has just made: epoll would
        // report the socket for ever, under a number that belongs to another file by then (epoll(7), questions and answers, 6).
        // If the epoll instance was closed first, the call fails with EBADF, EINVAL or ENOENT.
        if let epoll { _ = cnl_epoll_remove(epoll, descriptor) }
        cnl_close(handle)
    }

    /// Opens a socket for requests: strict and blocking, with a limit for answers.
    static func forRequests(namespace: String?, isForPolicies: Bool = false) throws(ReachabilityError) -> NetlinkSocket {
        let socket = try NetlinkSocket(namespace: namespace, isForPolicies: isForPolicies)
        // Without strict checking the kernel ignores unknown parts of a request (NETLINK_GET_STRICT_CHK, netlink(7)). Kernels
        // before 4.20 lack the option and answer the same requests.
        _ = cnl_set_strict(socket.handle)
        try ReachabilityError.check(cnl_set_receive_timeout(socket.handle, replyTimeout), "setsockopt(SO_RCVTIMEO)")
        return socket
    }

    /// Opens a socket for events, or takes over the one that was handed to the source: non-blocking and filtered, member of all
    /// groups, reported by `epoll` with this bit.
    static func forEvents(
        _ context: ReaderContext, reportedBy epoll: borrowing Epoll, at bit: Int32
    ) throws(ReachabilityError) -> NetlinkSocket {
        var socket: NetlinkSocket
        if let descriptor = context.inherited?.take() {
            socket = try NetlinkSocket(takingOver: descriptor)
        } else {
            socket = try NetlinkSocket(namespace: context.namespace)
        }
        try ReachabilityError.check(cnl_set_nonblocking(socket.handle), "fcntl(O_NONBLOCK)")
        var granted: UInt32 = 0
        // Its maker chose the size of an inherited socket's buffer, and may have more privileges than this process.
        let result =
            socket.isInherited
            ? cnl_read_receive_buffer(socket.handle, &granted)
            : cnl_set_receive_buffer(socket.handle, context.receiveBuffer, &granted)
        try ReachabilityError.check(result, "setsockopt(SO_RCVBUF)")
        socket.receiveBuffer = Int(granted)
        // Before the socket joins the first group.
        context.filter.attach(to: socket.descriptor)
        let groups = UnsafeBufferPointer(start: cnl_groups(), count: cnl_group_count())
        do throws(ReachabilityError) {
            for group in groups { try join(group, socket.handle) }
            try socket.report(to: epoll, at: bit)
        } catch {
            // The descriptor is about to be closed, and its number reused.
            context.filter.detach()
            throw error
        }
        return socket
    }

    /// Makes `epoll` report the socket with this bit until the socket is closed.
    mutating func report(to epoll: borrowing Epoll, at bit: Int32) throws(ReachabilityError) {
        try epoll.add(descriptor, at: bit)
        self.epoll = epoll.descriptor
    }

    private static func join(_ group: UInt32, _ handle: OpaquePointer) throws(ReachabilityError) {
        let result = cnl_join(handle, group)
        // EINVAL: an older kernel lacks the group, and the events too (nexthop objects need Linux 5.3). Every kernel has the link
        // group.
        guard result < 0, result != -EINVAL || group == CNL_GROUP_LINK else { return }
        throw ReachabilityError(
            ReachabilityError.isShortage(-result) ? .resourcesExhausted : .eventsUnavailable, errno: -result,
            operation: "setsockopt(NETLINK_ADD_MEMBERSHIP, \(group))")
    }

    /// The file descriptor, owned by the socket.
    var descriptor: Int32 { cnl_descriptor(handle) }

    /// The receive queue's size and the kernel's drop counter; `nil` before Linux 4.12 (SO_MEMINFO).
    var queue: cnl_queue? {
        var queue = cnl_queue()
        return cnl_read_queue(handle, &queue) == 0 ? queue : nil
    }

    /// Reads one datagram.
    ///
    /// - Returns: its length or a negative errno.
    borrowing func receive(into buffer: UnsafeMutableRawBufferPointer, _ datagram: inout cnl_datagram) -> Int {
        guard let base = buffer.baseAddress else { return -Int(EINVAL) }
        return Int(cnl_receive(handle, base, buffer.count, &datagram))
    }

    /// Reads up to `count` queued datagrams.
    ///
    /// - Returns: their number or a negative errno.
    borrowing func receive(_ count: Int, into buffer: borrowing DatagramBuffer) -> Int {
        Int(cnl_receive_many(handle, buffer.bytes, buffer.datagrams, count))
    }

    /// Makes lookups and waits for their answers, one for each query.
    ///
    /// - Returns: 0 or a negative errno.
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
        try ReachabilityError.check(result, operation())
        return sequence
    }
}

/// An event socket that was handed to the source, until the reader takes it over.
///
/// Safe to use from any thread.
final class InheritedSocket: Sendable {
    private let descriptor: Atomic<Int32>

    /// Owns a descriptor from then on, if it is an rtnetlink socket with a port in this network namespace.
    init(_ descriptor: Int32, namespace: String?) throws(ReachabilityError) {
        var operation: UnsafePointer<CChar>?
        let error = -cnl_check_socket(descriptor, namespace, &operation)
        guard error == 0 else {
            switch operation.map({ String(cString: $0) }) ?? "" {
            case let call where ["open", "setns"].contains(call) || ReachabilityError.isShortage(error):
                throw ReachabilityError(opening: call, namespace, errno: error)
            default: throw ReachabilityError(.invalidSocket, errno: error, operation: "taking over descriptor \(descriptor)")
            }
        }
        self.descriptor = Atomic(descriptor)
    }

    deinit {
        if let descriptor = take() { cnl_close_descriptor(descriptor) }
    }

    /// Hands the descriptor over, once.
    func take() -> Int32? {
        let taken = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        return taken < 0 ? nil : taken
    }
}

/// Memory for the datagrams of one read.
struct DatagramBuffer: ~Copyable {
    let bytes = UnsafeMutableRawPointer.allocate(byteCount: Int(CNL_MANY_BUFFER_SIZE), alignment: 16)
    let datagrams = UnsafeMutablePointer<cnl_datagram>.allocate(capacity: Int(CNL_DATAGRAM_LIMIT))

    deinit {
        bytes.deallocate()
        datagrams.deallocate()
    }
}

/// The event socket's filter, replaced while the reader reads when a caller watches new destinations.
///
/// Safe to use from any thread.
final class SocketFilter: Sendable {
    private struct State {
        var destinations: Set<IPAddress>?
        var gateways: Set<IPAddress> = []
        var filter: EventFilter?
        var descriptor: Int32?
    }

    private let state = Mutex(State())

    /// Passes only messages that can matter for these destinations; before the first call all messages pass.
    func watch(_ destinations: Set<IPAddress>) { change { $0.destinations = destinations } }

    /// Also passes messages about these neighbours.
    func watch(gateways: Set<IPAddress>) { change { $0.gateways = gateways } }

    private func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            body(&state)
            guard let destinations = state.destinations else { return }
            let filter = EventFilter(watching: destinations, gateways: state.gateways)
            guard state.filter != filter else { return }
            state.filter = filter
            if let descriptor = state.descriptor { Self.attach(filter, descriptor) }
        }
    }

    /// Attaches the filter to a socket and keeps it current from now on.
    func attach(to descriptor: Int32) {
        state.withLock { state in
            state.descriptor = descriptor
            if let filter = state.filter { Self.attach(filter, descriptor) }
        }
    }

    /// Forgets the socket, before it is closed.
    func detach() {
        state.withLock { $0.descriptor = nil }
    }

    private static func attach(_ filter: EventFilter, _ descriptor: Int32) {
        let instructions = filter.instructions.map {
            cnl_instruction(code: $0.code, if_true: $0.jt, if_false: $0.jf, operand: $0.k)
        }
        guard cnl_set_filter(descriptor, instructions, instructions.count) != 0 else { return }
        // A small net.core.optmem_max leaves no room for many addresses. No filter is better than an outdated one.
        _ = cnl_set_filter(descriptor, nil, 0)
    }
}

/// Moves the calling thread into a network namespace (setns(2)); threads that it starts later inherit the namespace.
///
/// For a program that has no other thread yet: existing threads stay where they are.
///
/// - Parameter path: the namespace, such as `/run/netns/NAME`.
package func enterNetworkNamespace(_ path: String) throws(ReachabilityError) {
    let error = -cnl_enter_namespace(path)
    guard error != 0 else { return }
    let code: ReachabilityError.Code = error == EPERM || error == EACCES ? .permissionDenied : .namespaceUnavailable
    throw ReachabilityError(code, errno: error, operation: "setns(\(path))")
}

extension ReachabilityError {
    /// Throws if a call of the C layer returned a negative errno.
    static func check(_ result: Int32, _ operation: @autoclosure () -> String) throws(ReachabilityError) {
        guard result < 0 else { return }
        throw ReachabilityError(failed: operation(), errno: -result)
    }

    /// Creates the error of a failed call.
    init(failed operation: String, errno: Int32) {
        let code: Code =
            switch errno {
            case EPERM, EACCES: .permissionDenied
            case let error where Self.isShortage(error): .resourcesExhausted
            default: .requestFailed
            }
        self.init(code, errno: errno, operation: operation)
    }

    /// Returns `true` for a shortage of descriptors or memory, which passes.
    static func isShortage(_ errno: Int32) -> Bool { [EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC].contains(errno) }

    /// Creates the error of a socket that could not be opened.
    fileprivate init(opening operation: String, _ namespace: String?, errno: Int32) {
        switch operation {
        // EAGAIN: there is no thread to enter the namespace (pthread_create(3)).
        case _ where Self.isShortage(errno) || errno == EAGAIN:
            self.init(.resourcesExhausted, errno: errno, operation: operation)
        case "open", "setns":
            let isForbidden = errno == EPERM || errno == EACCES
            let operation = "\(operation)(\(namespace ?? ""))"
            self.init(isForbidden ? .permissionDenied : .namespaceUnavailable, errno: errno, operation: operation)
        default:
            self.init(.netlinkUnavailable, errno: errno, operation: operation)
        }
    }
}
