internal import CNetlink
internal import Glibc
internal import Synchronization

/// Requests and their answers, on a separate socket.
struct KernelRequests: ~Copyable {
    private let socket: NetlinkSocket
    private let buffer = ReceiveBuffer()
    private let answers = AnswerBuffer()
    private let namespace: String?

    /// - Parameter isForPolicies: True to read IPsec policies, and nothing else.
    init(namespace: String?, isForPolicies: Bool = false) throws(ReachabilityError) {
        self.namespace = namespace
        socket = try NetlinkSocket.forRequests(namespace: namespace, isForPolicies: isForPolicies)
    }

    /// Looks up routes; the answers are in the order of the queries.
    borrowing func routes(_ queries: [RouteQuery]) throws(ReachabilityError) -> [Result<RouteVerdict, ReachabilityError>] {
        var verdicts: [Result<RouteVerdict, ReachabilityError>] = []
        verdicts.reserveCapacity(queries.count)
        let limit = Int(CNL_LOOKUP_LIMIT)
        for start in stride(from: 0, to: queries.count, by: limit) {
            try lookUp(queries[start..<min(start + limit, queries.count)], &verdicts)
        }
        return verdicts
    }

    /// Makes lookups that fit into one call.
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
                guard answer.pointee.kind == CNL_ROUTE else {
                    verdicts.append(.success(.refused(errno: answer.pointee.error)))
                    continue
                }
                var verdict = RouteVerdict(answer.pointee.route, to: query, space)
                if case .route(var route) = verdict, !route.nextHops.isEmpty {
                    route.choosesByPorts = choosesByPorts(query.destination.family)
                    verdict = .route(route)
                }
                verdicts.append(.success(verdict))
            }
            return 0
        }
        // Formatted only on failure: this lies between each event and its verdict.
        try ReachabilityError.check(
            result, "RTM_GETROUTE \(queries.map { "\($0.destination)" }.joined(separator: ", "))")
    }

    /// Returns true if the kernel chooses next hops by more than addresses; where its setting cannot be read, by addresses.
    private borrowing func choosesByPorts(_ family: IPAddress.Family) -> Bool {
        cnl_setting(namespace, "/proc/sys/net/\(family == .ipv4 ? "ipv4" : "ipv6")/fib_multipath_hash_policy") > 0
    }

    /// Returns all links with their addresses.
    ///
    /// - Parameter isLast: `true` to accept an interrupted dump: the change that interrupted it has an event.
    /// - Returns: `nil` if the dump has to be repeated.
    borrowing func interfaces(isLast: Bool) throws(ReachabilityError) -> [NetworkInterface]? {
        var interfaces: [NetworkInterface] = []
        var positions: [UInt32: Int] = [:]
        let linksAreWhole = try dump("RTM_GETLINK", isLast, cnl_request_links) { message, datagram in
            guard message.kind == CNL_LINK else { return }
            positions[message.link.index] = interfaces.count
            interfaces.append(NetworkInterface(message.link, of: datagram))
        }
        guard linksAreWhole || isLast else { return nil }
        let addressesAreWhole = try dump("RTM_GETADDR", isLast, cnl_request_addresses) { message, _ in
            guard message.kind == CNL_ADDRESS, let position = positions[message.address.interface],
                let address = NetworkInterface.Address(message.address)
            else { return }
            interfaces[position].addresses.append(address)
        }
        return addressesAreWhole || isLast ? interfaces : nil
    }

    /// Returns those of these links that exist, without addresses.
    borrowing func links(_ indices: [UInt32]) throws(ReachabilityError) -> [NetworkInterface] {
        var links: [NetworkInterface] = []
        for index in indices {
            try ask(
                "RTM_GETLINK", { cnl_request_link($0, index, $1) },
                take: { message, datagram in
                    if message.kind == CNL_LINK { links.append(NetworkInterface(message.link, of: datagram)) }
                })
        }
        return links
    }

    /// Returns the port by which a bridge knows a gateway; `nil` if it does not.
    borrowing func port(
        of bridge: UInt32, towards gateway: IPAddress, on interface: UInt32
    ) throws(ReachabilityError) -> UInt32? {
        var address: [UInt8] = []
        var request = cnl_address(gateway)
        try ask(
            "RTM_GETNEIGH", { cnl_request_neighbour($0, interface, &request, $1) },
            take: { message, _ in
                if message.kind == CNL_NEIGHBOUR { address = message.neighbour.hardwareAddress }
            })
        if address.isEmpty { return nil }
        var ports: Set<UInt32> = []
        let take = { (message: cnl_message, _: UnsafeRawPointer) in
            guard message.kind == CNL_NEIGHBOUR, message.neighbour.hardwareAddress == address else { return }
            ports.insert(message.neighbour.interface)
        }
        try ask("RTM_GETNEIGH", { cnl_request_port($0, bridge, address, address.count, $1) }, take: take)
        if let port = ports.first { return port }
        // With VLANs the entry has one, and in another VLAN the address may be at another port.
        _ = try dump("RTM_GETNEIGH", true, { cnl_request_ports($0, bridge, $1) }, take)
        return ports.count == 1 ? ports.first : nil
    }

    /// Returns the first of these interfaces with a unicast default or host route of its own.
    ///
    /// The socket is not usable any more: the rest of a dump may be left in it.
    consuming func holderOfOwnRoute(among interfaces: [UInt32], until isLate: () -> Bool) throws(ReachabilityError) -> UInt32? {
        for interface in interfaces {
            for family in IPAddress.Family.allCases {
                let sequence = try socket.send("RTM_GETROUTE") { cnl_request_routes($0, family.kernel, interface, $1) }
                var (isFound, isDone) = (false, false)
                while !isDone {
                    if isLate() { throw ReachabilityError(.requestFailed, errno: ETIMEDOUT, operation: "RTM_GETROUTE") }
                    try receive("RTM_GETROUTE") { message, _ in
                        guard message.sequence == sequence else { return }
                        if message.kind == CNL_DONE || message.kind == CNL_ERROR { isDone = true }
                        guard message.kind == CNL_ROUTE, message.route.interface == interface,
                            UInt32(message.route.type) == CNL_ROUTE_UNICAST
                        else { return }
                        if [0, family.bitWidth].contains(Int(message.route.destination_length)) { isFound = true }
                    }
                    if isFound { return interface }
                }
            }
        }
        return nil
    }

    /// Returns true if the kernel waits for a neighbour's answer, or had none.
    borrowing func isSilent(_ neighbour: Neighbour) throws(ReachabilityError) -> Bool {
        var request = cnl_address(neighbour.address)
        var isSilent = false
        try ask(
            "RTM_GETNEIGH", { cnl_request_neighbour($0, neighbour.interface, &request, $1) },
            take: { message, _ in
                guard message.kind == CNL_NEIGHBOUR else { return }
                isSilent = [CNL_NEIGHBOUR_FAILED, CNL_NEIGHBOUR_INCOMPLETE].contains(UInt32(message.neighbour.state))
            })
        return isSilent
    }

    /// Returns true for a bond that watches neither the carrier nor ARP targets of its ports.
    borrowing func isUnmonitored(_ bond: UInt32) throws(ReachabilityError) -> Bool {
        var isUnmonitored = false
        try ask(
            "RTM_GETLINK", { cnl_request_link($0, bond, $1) },
            take: { message, _ in
                if message.kind == CNL_LINK { isUnmonitored = message.link.is_unmonitored }
            })
        return isUnmonitored
    }

    /// Returns the IPsec policies for outgoing packets; needs CAP_NET_ADMIN.
    borrowing func policies() throws(ReachabilityError) -> [PacketPolicy] {
        let operation = "XFRM_MSG_GETPOLICY"
        let sequence = try socket.send(operation, cnl_request_policies)
        var policies: [PacketPolicy] = []
        var end: Int32?
        while end == nil {
            let length = try receive(operation)
            guard length > 0, let bytes = buffer.bytes.baseAddress else { continue }
            var (offset, policy) = (0, cnl_policy())
            while cnl_next_policy(bytes, length, &offset, &policy) {
                if let policy = PacketPolicy(policy) { policies.append(policy) }
            }
            MessageDecoder.forEach(in: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<length])) { message, _ in
                guard message.sequence == sequence else { return }
                if message.kind == CNL_DONE || message.kind == CNL_ERROR { end = message.error }
            }
        }
        try ReachabilityError.check(-(end ?? 0), operation)
        return policies
    }

    /// Makes a request with one answer, which `body` gets unless it is an error of the kernel.
    private borrowing func ask(
        _ operation: String, _ request: (OpaquePointer, UnsafeMutablePointer<UInt32>) -> Int32,
        take body: (cnl_message, UnsafeRawPointer) -> Void
    ) throws(ReachabilityError) {
        let sequence = try socket.send(operation, request)
        var isAnswered = false
        while !isAnswered {
            try receive(operation) { message, datagram in
                guard message.sequence == sequence else { return }
                isAnswered = true
                body(message, datagram)
            }
        }
    }

    /// Makes a dump.
    ///
    /// - Returns: `false` if it was interrupted, or if another dump kept the kernel busy (EBUSY; an error if `isLast`).
    private borrowing func dump(
        _ operation: String, _ isLast: Bool, _ request: (OpaquePointer, UnsafeMutablePointer<UInt32>) -> Int32,
        _ body: (cnl_message, UnsafeRawPointer) -> Void
    ) throws(ReachabilityError) -> Bool {
        let sequence = try socket.send(operation, request)
        var isWhole = true
        var end: Int32?
        while end == nil {
            try receive(operation) { message, datagram in
                guard message.sequence == sequence else { return }
                if message.is_interrupted { isWhole = false }
                // NLMSG_DONE carries the errno of a rejected dump, which is not an empty dump.
                if message.kind == CNL_DONE || message.kind == CNL_ERROR { end = message.error } else { body(message, datagram) }
            }
        }
        if end == EBUSY && !isLast { return false }
        try ReachabilityError.check(-(end ?? 0), operation)
        return isWhole
    }

    private borrowing func receive(_ operation: @autoclosure () -> String, _ body: (cnl_message, UnsafeRawPointer) -> Void)
        throws(ReachabilityError)
    {
        let length = try receive(operation())
        MessageDecoder.forEach(in: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<length]), body)
    }

    /// Receives a datagram and returns its length; 0 if it is not from the kernel.
    private borrowing func receive(_ operation: @autoclosure () -> String) throws(ReachabilityError) -> Int {
        var datagram = cnl_datagram()
        let length = socket.receive(into: buffer.bytes, &datagram)
        guard length >= 0 else {
            // SO_RCVTIMEO ends a read with EAGAIN (socket(7)).
            throw ReachabilityError(
                .requestFailed, errno: length == -Int(EAGAIN) ? ETIMEDOUT : Int32(-length), operation: operation())
        }
        guard !datagram.is_truncated else { throw ReachabilityError(.requestFailed, errno: EMSGSIZE, operation: operation()) }
        return datagram.port == 0 ? length : 0
    }
}

extension PacketPolicy {
    /// Creates a policy for outgoing packets; `nil` for one of another direction, or for packets of an xfrm interface only.
    init?(_ policy: cnl_policy) {
        guard policy.direction == CNL_POLICY_OUT, policy.interface_id == 0, let source = IPAddress(policy.source),
            let destination = IPAddress(policy.destination)
        else { return nil }
        self.init(
            from: IPPrefix(source, length: Int(policy.source_length)),
            to: IPPrefix(destination, length: Int(policy.destination_length)))
        transport = policy.protocol == 0 ? nil : Scope.Transport(rawValue: policy.protocol)
        interface = policy.interface == 0 ? nil : policy.interface
        mark = Masked(value: policy.mark, mask: policy.mark_mask)
        port = Masked(value: policy.port, mask: policy.port_mask)
        (selectsSourcePort, priority) = (policy.has_source_port, policy.priority)
        effect = policy.action == CNL_POLICY_BLOCK ? .blocks : policy.has_templates ? .protects : .none
    }
}

extension cnl_neighbour {
    fileprivate var hardwareAddress: [UInt8] {
        withUnsafeBytes(of: hardware_address) { $0.prefix(Int(hardware_address_length)) + [] }
    }
}

/// Memory for the answers to the lookups of one call.
private struct AnswerBuffer: ~Copyable {
    let messages: UnsafeMutablePointer<cnl_message>

    init() {
        messages = .allocate(capacity: Int(CNL_LOOKUP_LIMIT))
        messages.initialize(repeating: cnl_message(), count: Int(CNL_LOOKUP_LIMIT))
    }

    deinit { messages.deallocate() }
}

/// Memory for one datagram.
private struct ReceiveBuffer: ~Copyable {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(CNL_BUFFER_SIZE), alignment: 16)

    deinit { bytes.deallocate() }
}

/// Counts failed dumps and interrupted dumps in a row.
///
/// Safe to use from any thread.
final class DumpFailures: Sendable {
    /// The number of interrupted dumps in a row after which one is accepted.
    private static let restartLimit = 5

    private let failures = Atomic(0)
    private let interruptions = Atomic(0)

    /// The number of failed dumps since the last successful one.
    var inARow: Int { failures.load(ordering: .relaxed) }

    /// Makes a dump and counts its result.
    ///
    /// - Parameter dump: makes the dump; its parameter is `true` if it has to accept an interrupted one.
    func counting<Dump>(_ dump: (_ isLast: Bool) throws(ReachabilityError) -> Dump) throws(ReachabilityError) -> Dump {
        do {
            let result = try dump(interruptions.load(ordering: .relaxed) >= Self.restartLimit)
            failures.store(0, ordering: .relaxed)
            interruptions.store(0, ordering: .relaxed)
            return result
        } catch {
            if error.code == .interrupted {
                interruptions.wrappingAdd(1, ordering: .relaxed)
            } else {
                failures.wrappingAdd(1, ordering: .relaxed)
            }
            throw error
        }
    }
}
