import Reachability
import Testing

@Suite struct EventCountsTests {
    @Test func eachEventOfTheKernelCountsOnce() {
        let address = held("192.0.2.10/24")
        var counts = EventCounts()
        counts.count([
            .link(.cable), .linkRemoved(index: 2), .address(address, interface: 2), .addressRemoved(address, interface: 2),
            .route(RouteChange(prefix("0.0.0.0/0"))), .rule(isRemoval: true), .nexthop(id: 1, isRemoval: false),
            .netconf(interface: nil), .neighbour(ip("192.0.2.1"), interface: 2, answers: true), .overrun,
            .resumed(after: .seconds(1)), .host("nas.local", .failed(.notFound)), .resolverChanged(file: "/etc/hosts"),
        ])
        counts.count([.rule(isRemoval: false), .rule(isRemoval: true)])
        #expect(EventCounts.Kind.allCases.map { counts[$0] } == [2, 2, 1, 3, 1, 1, 1])
    }
}
