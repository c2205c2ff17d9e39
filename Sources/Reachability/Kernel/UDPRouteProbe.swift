internal import CNetlink
internal import Glibc

/// Route lookups without netlink, for sandboxes that forbid it: connecting a UDP socket sends nothing and selects the source.
///
/// Gateways, tables, metrics and kinds of interfaces stay unknown.
struct UDPRouteProbe: Sendable {
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

    /// Returns links with their addresses (netdevice(7)).
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        var list = cnl_interfaces()
        var operation: UnsafePointer<CChar>?
        let result = cnl_probe_interfaces(namespace, &list, &operation)
        guard result == 0 else { throw Self.error(operation, errno: -result) }
        defer { cnl_free_interfaces(&list) }
        var interfaces = UnsafeBufferPointer(start: list.links, count: list.link_count).map { NetworkInterface($0) }
        for held in UnsafeBufferPointer(start: list.addresses, count: list.address_count) {
            guard let position = interfaces.firstIndex(where: { $0.index == held.interface }),
                let address = NetworkInterface.Address(held)
            else { continue }
            interfaces[position].addresses.append(address)
        }
        return interfaces
    }

    /// Looks up routes (connect(2), getsockname(2)).
    ///
    /// The egress interface is assumed to be the one that holds the source address, which is wrong only if several hold it.
    func routes(to queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict] {
        let interfaces = try interfaces()
        var verdicts: [RouteVerdict] = []
        for query in queries { verdicts.append(try route(to: query, interfaces)) }
        return verdicts
    }

    /// Looks up one route.
    ///
    /// Without `interfaces` its interface is unknown unless the query names one.
    func route(to query: RouteQuery, _ interfaces: [NetworkInterface] = []) throws(ReachabilityError) -> RouteVerdict {
        var request = query.request
        var (source, refusal) = (cnl_address(), Int32(0))
        var operation: UnsafePointer<CChar>?
        let result = cnl_probe_route(namespace, &request, &source, &refusal, &operation)
        guard result == 0 else { throw Self.error(operation, errno: -result) }
        guard refusal == 0 else { return .refused(errno: refusal) }
        guard let address = IPAddress(source) else { return .refused(errno: ENETUNREACH) }
        // The machine's own addresses are reached through the loopback device, whichever interface holds them.
        let isLocal = address == query.destination || query.destination.isLoopback || query.destination.isUnspecified
        let holder = interfaces.first { link in
            isLocal ? link.isLoopback : link.addresses.contains { $0.address == address }
        }
        return .route(
            .init(
                interface: query.interface ?? holder?.index ?? 0, gateway: nil, source: address, table: Self.mainTable, metric: nil,
                prefixLength: nil, isLocal: isLocal))
    }

    /// RT_TABLE_MAIN, the usual table; a probe cannot tell which one it was.
    private static let mainTable: UInt32 = 254

    private static func error(_ operation: UnsafePointer<CChar>?, errno: Int32) -> ReachabilityError {
        let operation = operation.map { String(cString: $0) } ?? "socket(SOCK_DGRAM)"
        // EAGAIN: there is no thread to enter the namespace (pthread_create(3)).
        return errno == EAGAIN
            ? ReachabilityError(.resourcesExhausted, errno: errno, operation: operation)
            : ReachabilityError(failed: operation, errno: errno)
    }
}
