/// What an event means to people, kept as data until somebody wants to read it.
package struct Hint: Equatable, Sendable {
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
        case rule(isRemoval: Bool)
        case nexthop(id: UInt32, isRemoval: Bool)
        case netconf
        case overrun
        case resumed(after: Duration)
        case host(String, HostAnswer)
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

    /// Whether the kernel may send this message *before* the change it announces, so that it has to be asked again later.
    ///
    /// Link, address, rule, nexthop and netconf messages do, and those about IPv4 routes that are removed; other route messages
    /// come after their changes.
    package var mayPrecedeItsChange: Bool {
        switch kind {
        // fib_table_delete (net/ipv4/fib_trie.c) sends the message first and then removes the route, and look-ups take no lock.
        case .route(let change): change.isRemoval && change.destination.address.family == .ipv4
        case .host: false
        default: true
        }
    }

    /// The cause of what follows from it.
    package var cause: Cause { Cause(self) }

    package var causeKind: Cause.Kind {
        switch kind {
        case .linkAppeared: .linkUp
        case .linkRemoved: .linkRemoved
        case .link(let change): change.causeKind
        case .address(_, let change): change == .removed ? .addressRemoved : .addressAdded
        case .route(let change): change.isRemoval ? .routeRemoved : .routeAdded
        case .rule: .ruleChanged
        case .nexthop: .nexthopChanged
        case .netconf: .netconfChanged
        case .overrun: .eventsLost
        case .resumed: .resumed
        case .host: .hostLookedUp
        }
    }

    /// What it says to people.
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
        case .rule(let isRemoval): return "a policy rule was \(isRemoval ? "removed" : "added")"
        case .nexthop(let id, let isRemoval): return "nexthop \(id) was \(isRemoval ? "removed" : "set")"
        case .netconf: return "a setting of \(interface?.name ?? "all interfaces") changed"
        case .overrun: return "events were lost and everything was read again"
        case .resumed(let time): return "the machine was suspended for \(time)"
        case .host(let name, .addresses(let addresses)):
            let list = addresses.map(\.description).joined(separator: ", ")
            return "\(name) has the address\(addresses.count == 1 ? "" : "es") \(list)"
        case .host(let name, .failed(let failure)): return "\(name): \(failure)"
        }
    }
}
