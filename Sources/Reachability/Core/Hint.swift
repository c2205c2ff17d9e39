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
        case setting
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
    /// Link, address, rule, nexthop and netconf messages do; a route message comes after its change.
    package var mayPrecedeItsChange: Bool {
        switch kind {
        case .route, .host: false
        default: true
        }
    }

    package var cause: Cause {
        let name = interface?.name ?? "an unknown interface"
        func cause(_ kind: Cause.Kind, _ text: String) -> Cause { Cause(kind, text, interface: interface) }
        switch kind {
        case .linkAppeared: return cause(.linkUp, "\(name) appeared")
        case .linkRemoved: return cause(.linkRemoved, "\(name) was removed")
        case .link(let change): return cause(change.causeKind, change.text(name))
        case .address(let address, let change):
            let text = "\(address.address)/\(address.prefixLength)"
            switch change {
            case .added: return cause(.addressAdded, "\(text) was added to \(name)")
            case .madeReady: return cause(.addressAdded, "\(text) of \(name) is \(address.isReady ? "ready" : "not ready")")
            case .renewed: return cause(.addressAdded, "\(text) of \(name) was renewed")
            case .removed: return cause(.addressRemoved, "\(text) was removed from \(name)")
            }
        case .route(let change):
            let via = change.gateway.map { " via \($0)" } ?? ""
            let dev = interface.map { " dev \($0.name)" } ?? ""
            let text = "route \(change.destination)\(via)\(dev)"
            return change.isRemoval ? cause(.routeRemoved, "\(text) was removed") : cause(.routeAdded, "\(text) was set")
        case .rule(let isRemoval): return cause(.ruleChanged, "a policy rule was \(isRemoval ? "removed" : "added")")
        case .nexthop(let id, let isRemoval):
            return cause(.nexthopChanged, "nexthop \(id) was \(isRemoval ? "removed" : "set")")
        case .setting: return cause(.settingChanged, "a setting of \(interface?.name ?? "all interfaces") changed")
        case .overrun: return cause(.eventsLost, "events were lost and everything was asked anew")
        case .resumed(let time): return cause(.resumed, "the machine was suspended for \(time)")
        case .host(let name, .addresses(let addresses)):
            let list = addresses.map(\.description).joined(separator: ", ")
            return cause(.hostLookedUp, "\(name) has the address\(addresses.count == 1 ? "" : "es") \(list)")
        case .host(let name, .notFound): return cause(.hostLookedUp, "\(name) has no address")
        case .host(let name, .failed): return cause(.hostLookedUp, "\(name) could not be looked up")
        }
    }
}
