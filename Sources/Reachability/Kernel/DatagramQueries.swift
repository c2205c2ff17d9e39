internal import CNetlink
internal import Glibc

/// The same questions without netlink, for sandboxes that forbid it: a datagram socket is connected, which sends nothing, and
/// tells the address that it would send from.
///
/// Less is known this way: gateways, tables and metrics are not, and neither are kinds of interfaces.
struct DatagramQueries: Sendable {
    let namespace: String?

    /// The error of such sockets; `nil` if they work.
    var failure: ReachabilityError? {
        do throws(ReachabilityError) {
            _ = try interfaces()
            return nil
        } catch {
            return error
        }
    }

    /// Links and addresses (netdevice(7)).
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        var list = cnl_interfaces()
        var operation: UnsafePointer<CChar>?
        let result = cnl_datagram_interfaces(namespace, &list, &operation)
        guard result == 0 else { throw Self.error(operation, errno: -result) }
        defer { cnl_free_interfaces(&list) }
        var interfaces = UnsafeBufferPointer(start: list.links, count: list.link_count).map { NetworkInterface($0) }
        for held in UnsafeBufferPointer(start: list.addresses, count: list.address_count) {
            guard let position = interfaces.firstIndex(where: { $0.index == held.interface }),
                let address = MessageDecoder.address(held)
            else { continue }
            interfaces[position].addresses.append(address)
        }
        return interfaces
    }

    /// Look-ups (connect(2), getsockname(2)).
    ///
    /// A route is said to lead through the interface that holds the source address, which is so unless several hold it.
    func routes(to queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict] {
        let interfaces = try interfaces()
        var verdicts: [RouteVerdict] = []
        for query in queries { verdicts.append(try route(to: query, interfaces)) }
        return verdicts
    }

    /// One lookup, without the interface that the route leads through unless the query names one.
    func route(to query: RouteQuery, _ interfaces: [NetworkInterface] = []) throws(ReachabilityError) -> RouteVerdict {
        var request = query.request
        var (source, refusal) = (cnl_address(), Int32(0))
        var operation: UnsafePointer<CChar>?
        let result = cnl_datagram_source(namespace, &request, &source, &refusal, &operation)
        guard result == 0 else { throw Self.error(operation, errno: -result) }
        guard refusal == 0 else { return .refused(errno: refusal) }
        guard let address = IPAddress(source) else { return .refused(errno: ENETUNREACH) }
        // The machine's own addresses are reached through the loopback device, whoever holds them.
        let isLocal = address == query.destination || query.destination.isLoopback || query.destination.isUnspecified
        let holder = interfaces.first { link in
            isLocal ? link.isLoopback : link.addresses.contains { $0.address == address }
        }
        return .route(
            .init(
                interface: query.interface ?? holder?.index ?? 0, gateway: nil, source: address, table: Self.mainTable, metric: nil,
                prefixLength: nil, isLocal: isLocal))
    }

    /// RT_TABLE_MAIN: which table it was is not told, and this one is the usual one.
    private static let mainTable: UInt32 = 254

    private static func error(_ operation: UnsafePointer<CChar>?, errno: Int32) -> ReachabilityError {
        let operation = operation.map { String(cString: $0) } ?? "socket(SOCK_DGRAM)"
        return switch errno {
        case EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN: ReachabilityError(.resourcesExhausted, errno: errno, operation: operation)
        case EPERM, EACCES: ReachabilityError(.permissionDenied, errno: errno, operation: operation)
        default: ReachabilityError(.requestFailed, errno: errno, operation: operation)
        }
    }
}
