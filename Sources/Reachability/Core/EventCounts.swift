/// The numbers of events that a monitor has received, by kind.
///
/// Pure. Events that the kernel's filter drops are not received.
package struct EventCounts: Hashable, Sendable {
    /// A kind of event; the raw value is its name in metrics.
    package enum Kind: String, CaseIterable, Sendable {
        case link, address, route, rule, nexthop, netconf, neighbour
    }

    private var links = 0
    private var addresses = 0
    private var routes = 0
    private var rules = 0
    private var nexthops = 0
    private var netconfs = 0
    private var neighbours = 0

    package init() {}

    /// The number of events of a kind.
    package subscript(_ kind: Kind) -> Int {
        switch kind {
        case .link: links
        case .address: addresses
        case .route: routes
        case .rule: rules
        case .nexthop: nexthops
        case .netconf: netconfs
        case .neighbour: neighbours
        }
    }

    /// Adds the kernel's events of a batch; losses, suspensions and looked-up names are none.
    package mutating func count(_ events: [NetworkEvent]) {
        for position in events.indices {
            // In their places: an event has room for a whole interface.
            switch events[position].payload {
            case .link, .linkRemoved: links &+= 1
            case .address, .addressRemoved: addresses &+= 1
            case .route: routes &+= 1
            case .rule: rules &+= 1
            case .nexthop: nexthops &+= 1
            case .netconf: netconfs &+= 1
            case .neighbour: neighbours &+= 1
            case .overrun, .resumed, .host, .resolverChanged: break
            }
        }
    }
}
