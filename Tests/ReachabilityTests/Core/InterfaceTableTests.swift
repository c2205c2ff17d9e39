import Reachability
import Testing

@Suite struct InterfaceTableTests {
    private var table = InterfaceTable([.loopback, .cable])

    private mutating func apply(_ event: NetworkEvent) -> InterpretedEvent? { table.apply(event.payload) }

    @Test mutating func linkEventKeepsTheAddresses() {
        var link = NetworkInterface.cable
        link.addresses = []
        link.hasCarrier = false
        #expect(apply(.link(link))?.kind == .link(.lostCarrier))
        #expect(table[2]?.hasCarrier == false && table[2]?.addresses == NetworkInterface.cable.addresses)
    }

    @Test(arguments: [
        (true, true, true, false, LinkChange.lostCarrier), (true, false, true, true, .gotCarrier),
        (true, true, false, false, .shutDown),
        (false, false, true, false, .setUp), (false, false, true, true, .gotCarrier), (true, true, true, true, .nothingOfInterest),
    ])
    func flagsTellWhatHappenedToALink(wasUp: Bool, hadCarrier: Bool, isUp: Bool, hasCarrier: Bool, change: LinkChange) {
        let old = NetworkInterface(index: 2, name: "cable0", isUp: wasUp, hasCarrier: hadCarrier)
        let new = NetworkInterface(index: 2, name: "cable0", isUp: isUp, hasCarrier: hasCarrier)
        #expect(LinkChange(from: old, to: new) == change)
    }

    @Test func linkChangesAreDescribed() {
        let old = NetworkInterface.cable
        var new = old
        new.carrierChanges = 2
        #expect(LinkChange(from: old, to: new) == .blinked)
        new.name = "renamed0"
        #expect(LinkChange(from: old, to: new) == .renamed(from: "cable0"))
        new.operationalState = .dormant
        #expect(LinkChange(from: old, to: new) == .stoppedOperating && LinkChange(from: new, to: old) == .becameOperational)
    }

    @Test mutating func renameKeepsTheIndex() {
        var link = NetworkInterface.cable
        link.name = "renamed0"
        _ = apply(.link(link))
        #expect(table.interface(named: "renamed0")?.index == 2 && table.interface(named: "cable0") == nil)
    }

    @Test mutating func addressesComeChangeAndGo() {
        #expect(
            apply(.address(held("2001:db8::99/64", tentative: true), interface: 2))?.kind
                == .address(held("2001:db8::99/64", tentative: true), .added))
        #expect(!table.holdsReady(ip("2001:db8::99")))
        #expect(apply(.address(held("2001:db8::99/64"), interface: 2))?.kind == .address(held("2001:db8::99/64"), .madeReady))
        #expect(table.holdsReady(ip("2001:db8::99")))
        #expect(apply(.address(held("2001:db8::99/64"), interface: 2))?.kind == .address(held("2001:db8::99/64"), .renewed))
        _ = apply(.addressRemoved(held("2001:db8::99/64"), interface: 2))
        #expect(!table.holdsReady(ip("2001:db8::99")))
    }

    @Test mutating func prefixLengthDistinguishesAddresses() {
        _ = apply(.address(held("192.0.2.10/32"), interface: 2))
        _ = apply(.addressRemoved(held("192.0.2.10/24"), interface: 2))
        #expect(table.holdsReady(ip("192.0.2.10")))
    }

    @Test mutating func eventsAboutUnknownLinksChangeNothing() {
        let before = table
        #expect(apply(.linkRemoved(index: 99)) == nil)
        _ = apply(.address(held("198.51.100.1/24"), interface: 99))
        _ = apply(.addressRemoved(held("198.51.100.1/24"), interface: 99))
        _ = apply(.addressRemoved(held("198.51.100.1/24"), interface: 2))
        #expect(table == before)
    }

    @Test mutating func removedLinkTakesItsAddressesAlong() {
        #expect(apply(.linkRemoved(index: 2))?.cause.detail == "cable0 was removed")
        #expect(!table.holdsReady(ip("192.0.2.10")))
    }

    @Test mutating func onlySomeRouteMessagesFollowTheirChange() {
        #expect(apply(.route(RouteChange(.all(.ipv4), interface: 2)))?.mayPrecedeItsChange == false)
        #expect(apply(.route(RouteChange(.all(.ipv6), interface: 2, isRemoval: true)))?.mayPrecedeItsChange == false)
        #expect(apply(.route(RouteChange(.all(.ipv4), interface: 2, isRemoval: true)))?.mayPrecedeItsChange == true)
        let others: [NetworkEvent] = [
            .link(.cable), .address(held("192.0.2.10/24"), interface: 2), .rule(isRemoval: false), .nexthop(id: 1, isRemoval: true),
            .netconf(interface: nil),
        ]
        for event in others { #expect(apply(event)?.mayPrecedeItsChange == true) }
    }
}
