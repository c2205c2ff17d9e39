/// The meaning of an event, kept as data until its words are read.
package struct InterpretedEvent: Equatable, Sendable {
    package enum AddressChange: Equatable, Sendable {
        case added
        case madeReady
        case renewed
        case removed
    }

    package enum Kind: Equatable, Sendable {
        case linkAppeared
        case linkRemoved
        case link(LinkChange)
        case address(NetworkInterface.Address, AddressChange)
        case route(RouteChange)
        case routeExpired
        case rule(isRemoval: Bool)
        case nexthop(id: UInt32, isRemoval: Bool)
        case netconf
        case neighbour(IPAddress, answers: Bool)
        case overrun
        case resumed(after: Duration)
        /// The answer of a lookup, with the file of the resolver that changed before it.
        case host(String, HostAnswer, after: String? = nil)
    }

    package var kind: Kind
    package var interface: NetworkInterface.Identity?

    package init(_ kind: Kind, _ interface: NetworkInterface.Identity? = nil) {
        self.kind = kind
        self.interface = interface
    }

    package init(_ change: LinkChange, _ interface: NetworkInterface.Identity) {
        self.init(.link(change), interface)
    }

    /// True if the kernel may send this message *before* its change, so that lookups have to be repeated.
    ///
    /// True for link, address, rule, nexthop and netconf messages and removals of IPv4 routes; other route messages follow their
    /// changes.
    package var mayPrecedeItsChange: Bool {
        switch kind {
        // fib_table_delete (net/ipv4/fib_trie.c) sends the message, then removes the route; lookups take no lock.
        case .route(let change): change.isRemoval && change.destination.address.family == .ipv4
        case .host, .routeExpired, .neighbour: false
        default: true
        }
    }

    /// The cause of the changes that follow.
    package var cause: Cause { Cause(self) }

    package var causeKind: Cause.Kind {
        switch kind {
        case .linkAppeared: .linkUp
        case .linkRemoved: .linkRemoved
        case .link(let change): change.causeKind
        case .address(_, let change): change == .removed ? .addressRemoved : .addressAdded
        case .route(let change): change.isRemoval ? .routeRemoved : .routeAdded
        case .routeExpired: .routeRemoved
        case .rule: .ruleChanged
        case .nexthop: .nexthopChanged
        case .netconf: .netconfChanged
        case .neighbour: .neighbourChanged
        case .overrun: .eventsLost
        case .resumed: .resumed
        case .host: .hostLookedUp
        }
    }

    /// The event in words.
    package var text: String {
        let name = interface?.name ?? "an unknown interface"
        switch kind {
        case .linkAppeared: return "\(name) appeared"
        case .linkRemoved: return "\(name) was removed"
        case .link(let change): return change.text(name)
        case .address(let address, let change):
            let text = "\(address.address)/\(address.prefixLength)"
            switch change {
            case .added: return "\(text) was added to \(name)"
            case .madeReady: return "\(text) of \(name) is \(address.isReady ? "ready" : "not ready")"
            case .renewed: return "\(text) of \(name) was renewed"
            case .removed: return "\(text) was removed from \(name)"
            }
        case .route(let change):
            let via = change.gateway.map { " via \($0)" } ?? ""
            let dev = interface.map { " dev \($0.name)" } ?? ""
            return "route \(change.destination)\(via)\(dev) was \(change.isRemoval ? "removed" : "set")"
        case .routeExpired: return "the lifetime of a route ended"
        case .rule(let isRemoval): return "a policy rule was \(isRemoval ? "removed" : "added")"
        case .nexthop(let id, let isRemoval): return "nexthop \(id) was \(isRemoval ? "removed" : "set")"
        case .netconf: return "a setting of \(interface?.name ?? "all interfaces") changed"
        case .neighbour(let address, let answers): return "gateway \(address) \(answers ? "answers again" : "does not answer")"
        case .overrun: return "events were lost and everything was read again"
        case .resumed(let time): return "the machine was suspended for \(time.words)"
        case .host(let name, let answer, let file):
            let change = file.map { ", after \($0) changed" } ?? ""
            switch answer {
            case .addresses(let addresses):
                let list = addresses.map(\.description).joined(separator: ", ")
                return "\(name) has the address\(addresses.count == 1 ? "" : "es") \(list)\(change)"
            case .failed(let failure): return "\(name): \(failure)\(change)"
            }
        }
    }
}

/// The change that a link message announces.
package enum LinkChange: Equatable, Sendable {
    case shutDown
    case lostCarrier
    case setUp
    case gotCarrier
    case becameOperational
    case stoppedOperating
    case blinked
    case renamed(from: String)
    case nothingOfInterest

    package init(from old: NetworkInterface, to new: NetworkInterface) {
        self =
            switch (old.isUp, new.isUp, old.hasCarrier, new.hasCarrier) {
            case (true, false, _, _): .shutDown
            case (_, true, true, false): .lostCarrier
            case (_, true, false, true): .gotCarrier
            case (false, true, _, _): .setUp
            default:
                if old.isUsable != new.isUsable {
                    new.isUsable ? .becameOperational : .stoppedOperating
                } else if old.name != new.name {
                    .renamed(from: old.name)
                } else if old.carrierChanges != new.carrierChanges {
                    .blinked
                } else {
                    .nothingOfInterest
                }
            }
    }

    package var causeKind: Cause.Kind {
        switch self {
        case .shutDown, .lostCarrier, .stoppedOperating: .linkDown
        case .setUp, .gotCarrier, .becameOperational, .blinked: .linkUp
        case .renamed, .nothingOfInterest: .linkChanged
        }
    }

    package func text(_ name: String) -> String {
        switch self {
        case .shutDown: "\(name) was shut down"
        case .lostCarrier: "\(name) lost carrier"
        case .setUp: "\(name) was set up"
        case .gotCarrier: "\(name) got carrier"
        case .becameOperational: "\(name) became operational"
        case .stoppedOperating: "\(name) stopped operating"
        case .blinked: "\(name) lost carrier and got it back"
        case .renamed(let old): "\(old) was renamed to \(name)"
        case .nothingOfInterest: "\(name) changed"
        }
    }
}
