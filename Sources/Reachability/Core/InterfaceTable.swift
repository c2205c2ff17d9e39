/// The links and addresses of the machine, as the last dump and the events since then tell.
///
/// Small on purpose: routes are not mirrored, because the kernel does not announce all their changes.
package struct InterfaceTable: Equatable, Sendable {
    private var interfaces: [UInt32: NetworkInterface] = [:]

    package init(_ interfaces: [NetworkInterface] = []) {
        for interface in interfaces { self.interfaces[interface.index] = interface }
    }

    /// All interfaces, in the order of their indices.
    package var all: [NetworkInterface] { interfaces.values.sorted { $0.index < $1.index } }

    /// The unordered interfaces, for questions that do not care.
    package var unordered: some Collection<NetworkInterface> { interfaces.values }

    package subscript(index: UInt32) -> NetworkInterface? { interfaces[index] }

    package func interface(named name: String) -> NetworkInterface? {
        interfaces.values.first { $0.name == name }
    }

    /// Whether an interface holds the address and may send from it.
    package func holdsReady(_ address: IPAddress) -> Bool {
        interfaces.values.contains { $0.addresses.contains { $0.address == address && $0.isReady } }
    }

    /// Applies an event and says what it means, or `nil` if nothing in the table changed and nothing else can have.
    package mutating func apply(_ payload: NetworkEvent.Payload) -> Hint? {
        switch payload {
        case .link(let link): return upsert(link)
        case .linkRemoved(let index): return interfaces.removeValue(forKey: index).map { Hint(.linkRemoved, $0.identity) }
        case .address(let address, let index): return upsert(address, on: index)
        case .addressRemoved(let address, let index): return remove(address, from: index)
        case .route(let change): return Hint(.route(change), change.interface.flatMap { interfaces[$0]?.identity })
        case .rule(let isRemoval): return Hint(.rule(isRemoval: isRemoval))
        case .nexthop(let id, let isRemoval): return Hint(.nexthop(id: id, isRemoval: isRemoval))
        case .setting(let index): return Hint(.setting, index.flatMap { interfaces[$0]?.identity })
        case .overrun: return Hint(.overrun)
        case .resumed(let time): return Hint(.resumed(after: time))
        case .host(let name, let answer): return Hint(.host(name, answer))
        }
    }

    private mutating func upsert(_ link: NetworkInterface) -> Hint {
        guard let old = interfaces[link.index] else {
            var new = link
            new.addresses = []
            interfaces[link.index] = new
            return Hint(.linkAppeared, link.identity)
        }
        var new = link
        new.addresses = old.addresses
        interfaces[link.index] = new
        return Hint(LinkChange(from: old, to: new), new.identity)
    }

    private mutating func upsert(_ address: NetworkInterface.Address, on index: UInt32) -> Hint? {
        guard var interface = interfaces[index] else { return Hint(.address(address, .added)) }
        let position = interface.addresses.firstIndex { $0.isSame(as: address) }
        let old = position.map { interface.addresses[$0] }
        if let position { interface.addresses[position] = address } else { interface.addresses.append(address) }
        interfaces[index] = interface
        // Lifetimes are renewed by the same message; it is still a hint, for the kernel may have changed its mind elsewhere.
        let change: Hint.AddressChange = old == nil ? .added : old?.isReady == address.isReady ? .renewed : .madeReady
        return Hint(.address(address, change), interface.identity)
    }

    private mutating func remove(_ address: NetworkInterface.Address, from index: UInt32) -> Hint {
        interfaces[index]?.addresses.removeAll { $0.isSame(as: address) }
        return Hint(.address(address, .removed), interfaces[index]?.identity)
    }
}

extension NetworkInterface.Address {
    /// The kernel's key of an address on one interface: address and prefix length.
    fileprivate func isSame(as other: Self) -> Bool {
        address == other.address && prefixLength == other.prefixLength
    }
}
