import Reachability
import Testing

@Suite struct CauseLogTests {
    private static let cable = NetworkInterface.Identity(index: 2, name: "cable0")
    private static let other = NetworkInterface.Identity(index: 9, name: "veth9")

    private func best(
        _ events: [InterpretedEvent], from old: NetworkPath? = .online(), to new: NetworkPath = .offline(), host: String? = nil
    ) -> String? {
        var log = CauseLog()
        for event in events { log.append(event) }
        return log.best(from: old, to: new, host: host)?.detail
    }

    private let lostCarrier = InterpretedEvent(.link(.lostCarrier), Self.cable)
    private let routeGone = InterpretedEvent(
        .route(RouteChange(.all(.ipv4), gateway: ip("192.0.2.1"), interface: 2, isRemoval: true)), Self.cable)
    private let addressGone = InterpretedEvent(.address(held("192.0.2.10/24"), .removed), Self.cable)
    private let strangerGone = InterpretedEvent(.linkRemoved, Self.other)

    @Test func linkExplainsItsAddressesAndRoutes() {
        #expect(best([lostCarrier, routeGone, addressGone]) == "cable0 lost carrier")
        #expect(best([strangerGone, addressGone, routeGone]) == "192.0.2.10/24 was removed from cable0")
        #expect(best([strangerGone, routeGone]) == "route default via 192.0.2.1 dev cable0 was removed")
        #expect(best([strangerGone]) == "veth9 was removed")
        #expect(best([]) == nil)
    }

    @Test func additionExplainsAGain() {
        let gotCarrier = InterpretedEvent(.link(.gotCarrier), Self.cable)
        let routeSet = InterpretedEvent(.route(RouteChange(.all(.ipv4), interface: 2)), Self.cable)
        #expect(best([lostCarrier, gotCarrier], from: .offline(), to: .online()) == "cable0 got carrier")
        #expect(best([strangerGone, routeSet], from: .offline(), to: .online()) == "route default dev cable0 was set")
    }

    /// An address becomes ready a second or two after its link, when lookups are answered, too.
    @Test func answerExplainsItsOwnHost() {
        let ready = InterpretedEvent(.address(held("fe80::1/64"), .madeReady), Self.cable)
        let found = InterpretedEvent(.host("nas", .addresses([ip("192.0.2.7")]), after: "/etc/hosts"))
        let other = InterpretedEvent(.host("other", .failed(.refused)))
        let unresolved = NetworkPath.offline(.unresolved)
        let words = "nas has the address 192.0.2.7, after /etc/hosts changed"
        for events in [[found], [found, ready], [ready, found, other], [other, found, ready]] {
            #expect(best(events, from: unresolved, to: .online(), host: "nas") == words)
            #expect(best(events, from: .online(), to: unresolved, host: "nas") == words)
        }
        #expect(best([other], from: unresolved, to: .online(), host: "nas") == nil)
        #expect(best([found], from: .offline(), to: .online()) == nil, "the internet has no name")
        #expect(best([lostCarrier, found], host: "nas") == "cable0 lost carrier", "the name is not what is missing")
    }

    /// Events that add something, and events that take something away.
    private static let (additions, removals) = {
        func events(isRemoval: Bool) -> [InterpretedEvent] {
            [cable, other].flatMap { link in
                [
                    InterpretedEvent(isRemoval ? .linkRemoved : .linkAppeared, link),
                    InterpretedEvent(.link(isRemoval ? .lostCarrier : .gotCarrier), link),
                    InterpretedEvent(.link(isRemoval ? .shutDown : .setUp), link),
                    InterpretedEvent(.link(isRemoval ? .stoppedOperating : .becameOperational), link),
                    InterpretedEvent(.address(held("192.0.2.10/24"), isRemoval ? .removed : .added), link),
                    InterpretedEvent(.address(held("2001:db8::10/64"), isRemoval ? .removed : .added), link),
                    InterpretedEvent(.address(held("2001:db8::10/64", failed: isRemoval), .madeReady), link),
                    InterpretedEvent(.route(RouteChange(.all(.ipv6), interface: link.index, isRemoval: isRemoval)), link),
                    InterpretedEvent(.nexthop(id: 7, isRemoval: isRemoval)),
                ]
            }
        }
        return (events(isRemoval: false), events(isRemoval: true))
    }()

    @Test func gainAddsAndLossTakesAway() {
        let way = FamilyPath(
            isSatisfied: true, interface: Self.cable, gateway: ip("fe80::1"), source: ip("2001:db8::10"), table: 254)
        var both = NetworkPath.online()
        both.ipv6 = way
        // The whole path, and the second family beside the first.
        for (less, more) in [(NetworkPath.offline(), .online()), (.online(), both)] {
            for addition in Self.additions {
                for removal in Self.removals {
                    for events in [[addition, removal], [removal, addition]] {
                        #expect(best(events, from: less, to: more) == addition.cause.detail)
                        #expect(best(events, from: more, to: less) == removal.cause.detail)
                    }
                }
            }
        }
        // The end of a refusal, or of a better route that leads nowhere.
        #expect(best([routeGone], from: .offline(), to: .online()) == routeGone.cause.detail)
    }

    @Test func latestOfEqualEventsExplains() {
        let first = InterpretedEvent(.rule(isRemoval: false))
        let second = InterpretedEvent(.rule(isRemoval: true))
        #expect(best([first, second]) == "a policy rule was removed")
    }

    @Test func seenEventsExplainNothingLater() {
        let routeSet = InterpretedEvent(.route(RouteChange(.all(.ipv4), interface: 2)), Self.cable)
        var log = CauseLog()
        for event in [routeSet, lostCarrier, routeGone] { log.append(event) }
        log.removeSeen()
        // The kernel may make these changes after it has announced them.
        #expect(log.best(from: .online(), to: .offline())?.detail == "cable0 lost carrier")
        log.removeAll()
        log.append(routeSet)
        log.removeSeen()
        #expect(log.isEmpty)
    }

    @Test func logIsBounded() {
        var log = CauseLog()
        log.append(lostCarrier)
        for id in 0..<10_000 { log.append(InterpretedEvent(.nexthop(id: UInt32(id), isRemoval: false))) }
        #expect(log.best(from: .online(), to: .offline())?.detail == "nexthop 9999 was set")
    }
}
