import Glibc
import Reachability
import Testing

@Suite struct LayerTests {
    private let evaluator = PathEvaluator(ipv4Representatives: [[ip("1.1.1.1")]], ipv6Representatives: [])

    private func reason(_ interfaces: [NetworkInterface]) -> OfflineReason? {
        evaluator.path(for: .internet, [RouteAnswer(ip("1.1.1.1"), .refused(errno: ENETUNREACH))], InterfaceTable(interfaces))
            .offlineReason
    }

    private static func link(
        up: Bool = true, carrier: Bool = true, state: NetworkInterface.OperationalState = .up, _ addresses: String...,
        index: UInt32 = 5
    ) -> NetworkInterface {
        NetworkInterface(
            index: index, name: "uplink\(index)", isUp: up, hasCarrier: carrier, operationalState: state,
            addresses: addresses.map { held($0) })
    }

    @Test func reasonIsTheMissingLayer() {
        #expect(reason([.loopback]) == .noInterface)
        #expect(reason([.loopback, Self.link(up: false, carrier: false, "192.0.2.1/24")]) == .adminDown)
        #expect(reason([.loopback, Self.link(carrier: false, "192.0.2.1/24")]) == .noCarrier)
        #expect(reason([.loopback, Self.link(state: .dormant, "192.0.2.1/24")]) == .dormant)
        #expect(reason([.loopback, Self.link()]) == .noAddress)
        #expect(reason([.loopback, Self.link("2001:db8::1/64")]) == .noAddress)
        #expect(reason([.loopback, Self.link("169.254.7.7/16")]) == .noAddress)
        #expect(reason([.loopback, Self.link("192.0.2.1/24")]) == .noRoute)
    }

    @Test func furthestInterfaceDecides() {
        let pulled = Self.link(carrier: false, "192.0.2.1/24", index: 5)
        #expect(reason([pulled, Self.link(up: false, index: 6)]) == .noCarrier)
        #expect(reason([pulled, Self.link(index: 6)]) == .noAddress)
        #expect(reason([pulled, Self.link("198.51.100.1/24", index: 6)]) == .noRoute)
    }

    @Test(arguments: ["uplink5", "enp0s31f6"])
    func boundScopeIsExplainedByItsInterface(_ name: String) {
        var (scope, pulled) = (Scope.internet, Self.link(carrier: false, index: 5))
        (scope.interface, pulled.alternativeNames) = (name, ["enp0s31f6"])
        let table = InterfaceTable([pulled, Self.link("192.0.2.1/24", index: 6)])
        let path = evaluator.path(for: scope, [RouteAnswer(ip("1.1.1.1"), .refused(errno: ENETUNREACH))], table)
        #expect(path.offlineReason == .noCarrier)
    }

    @Test func reasonsAreOrderedByLayer() {
        #expect(OfflineReason.all == OfflineReason.all.sorted())
        #expect(
            OfflineReason.all.map(\.rawValue).joined(separator: " ")
                == """
                noInterface adminDown noCarrier dormant noAddress addressTentative noRoute unreachable prohibited blackhole \
                unresolved
                """)
        #expect(OfflineReason(rawValue: "noCarrier") == .noCarrier && OfflineReason(rawValue: "nonsense") == nil)
    }
}
