import Reachability

/// An address from its text; a typing mistake in a test gives the unspecified address, which satisfies nothing.
func ip(_ text: String) -> IPAddress {
    IPAddress(text) ?? IPAddress(family: .ipv4, value: 0)
}

/// An interface address from `192.0.2.10/24`.
func held(_ text: String, tentative: Bool = false, optimistic: Bool = false, failed: Bool = false) -> NetworkInterface.Address {
    let parts = text.split(separator: "/")
    return NetworkInterface.Address(
        ip(String(parts[0])), prefixLength: parts.count > 1 ? Int(parts[1]) ?? 0 : 32, isTentative: tentative,
        isOptimistic: optimistic, hasFailedDetection: failed)
}

/// A block from `10.0.0.0/8`.
func prefix(_ text: String) -> IPPrefix {
    let parts = text.split(separator: "/")
    return IPPrefix(ip(String(parts[0])), length: Int(parts[1]) ?? 0)
}

extension NetworkInterface {
    static let loopback = NetworkInterface(
        index: 1, name: "lo", kind: .loopback, operationalState: .unknown, addresses: [held("127.0.0.1/8"), held("::1/128")])

    /// A cable that is plugged in, with an address of each family.
    static let cable = NetworkInterface(
        index: 2, name: "cable0", addresses: [held("192.0.2.10/24"), held("2001:db8::10/64"), held("fe80::10/64")])
}

extension RouteVerdict {
    static func through(
        _ interface: UInt32 = 2, via gateway: String? = "192.0.2.1", from source: String? = "192.0.2.10", isLocal: Bool = false
    ) -> RouteVerdict {
        .route(Route(interface: interface, gateway: gateway.map(ip), source: source.map(ip), isLocal: isLocal))
    }
}

extension NetworkPath {
    /// A path that works over IPv4.
    static func online(
        _ interface: String = "cable0", index: UInt32 = 2, gateway: String = "192.0.2.1", source: String = "192.0.2.10",
        metric: UInt32? = nil, ipv6: Bool = false
    ) -> NetworkPath {
        let identity = NetworkInterface.Identity(index: index, name: interface)
        return NetworkPath(
            status: .satisfied,
            ipv4: FamilyPath(
                isSatisfied: true, interface: identity, gateway: ip(gateway), source: ip(source), table: 254, metric: metric),
            ipv6: ipv6
                ? FamilyPath(isSatisfied: true, interface: identity, gateway: ip("fe80::1"), source: ip("2001:db8::10"))
                : FamilyPath(reason: .noAddress),
            interface: NetworkInterface(index: index, name: interface))
    }

    /// A path that does not work.
    static func offline(_ reason: OfflineReason = .noCarrier) -> NetworkPath {
        NetworkPath(
            status: .unsatisfied, offlineReason: reason, ipv4: FamilyPath(reason: reason), ipv6: FamilyPath(reason: .noAddress))
    }
}

extension BootInstant {
    /// The moment of boot.
    static let zero = BootInstant(sinceBoot: .zero)
    static func seconds(_ seconds: Int) -> BootInstant { BootInstant(sinceBoot: .seconds(seconds)) }
    static func milliseconds(_ milliseconds: Int) -> BootInstant { BootInstant(sinceBoot: .milliseconds(milliseconds)) }
    static func microseconds(_ microseconds: Int) -> BootInstant { BootInstant(sinceBoot: .microseconds(microseconds)) }
}

/// A lookup's answer about a destination.
struct RouteAnswer {
    var query: RouteQuery
    var verdict: RouteVerdict

    init(_ destination: IPAddress, _ verdict: RouteVerdict, interface: UInt32? = nil, source: String? = nil) {
        query = RouteQuery(to: destination, interface: interface, source: source.map { .address(ip($0)) } ?? .unspecified)
        self.verdict = verdict
    }
}

extension PathEvaluator {
    /// The verdict from answers; `nil` if there was nothing to ask.
    func path(for scope: Scope, _ answers: [RouteAnswer]?, _ table: InterfaceTable) -> NetworkPath {
        path(for: scope, answers?.map { Decision(query: $0.query, verdict: $0.verdict) }, table)
    }
}
