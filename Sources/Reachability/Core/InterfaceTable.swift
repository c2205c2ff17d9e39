/// The links and addresses of the machine, as of the last dump and the events since.
///
/// Routes are not mirrored, because the kernel does not announce all their changes.
package struct InterfaceTable: Equatable, Sendable {
    /// All interfaces, in the order of their indices.
    // Not hashed: there are few, and the way from an event to its verdict reads them in their places, without copies.
    package private(set) var all: [NetworkInterface]
    /// The findings of earlier evaluations below the interfaces.
    package var memory: UnderlayMemory

    package init(_ interfaces: [NetworkInterface] = [], _ memory: UnderlayMemory = UnderlayMemory()) {
        self.memory = memory
        // Of two with the same index the later one is used.
        all = Dictionary(interfaces.map { ($0.index, $0) }) { $1 }.values.sorted { $0.index < $1.index }
    }

    package subscript(index: UInt32) -> NetworkInterface? { position(of: index).map { all[$0] } }

    /// Returns the position of an interface in ``all``.
    package func position(of index: UInt32) -> Int? {
        let position = firstPosition(notBelow: index)
        return position < all.count && all[position].index == index ? position : nil
    }

    private func firstPosition(notBelow index: UInt32) -> Int {
        var (low, high) = (0, all.count)
        while low < high {
            let middle = (low + high) / 2
            if all[middle].index < index { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Returns the interface with a name, which may be an alternative one: no two are the same (dev_alloc_name, net/core/dev.c).
    package func interface(named name: String) -> NetworkInterface? {
        all.first { $0.name == name } ?? all.first { $0.hasName(name) }
    }

    /// Returns true if an interface holds the address.
    package func holds(_ address: IPAddress) -> Bool {
        all.contains { $0.addresses.contains { $0.address == address } }
    }

    /// Returns true if an interface holds the address and may send from it.
    package func holdsReady(_ address: IPAddress) -> Bool {
        for place in all.indices {
            for held in all[place].addresses where held.address == address && held.isReady { return true }
        }
        return false
    }

    /// Applies an event and returns its meaning; `nil` if it changes nothing.
    package mutating func apply(_ payload: NetworkEvent.Payload) -> InterpretedEvent? {
        switch payload {
        case .link(let link): return upsert(link)
        case .linkRemoved(let index): return position(of: index).map { InterpretedEvent(.linkRemoved, all.remove(at: $0).identity) }
        case .address(let address, let index): return upsert(address, on: index)
        case .addressRemoved(let address, let index): return remove(address, from: index)
        case .route(let change): return InterpretedEvent(.route(change), change.interface.flatMap(identity))
        case .rule(let isRemoval): return InterpretedEvent(.rule(isRemoval: isRemoval))
        case .nexthop(let id, let isRemoval): return InterpretedEvent(.nexthop(id: id, isRemoval: isRemoval))
        case .netconf(let index): return InterpretedEvent(.netconf, index.flatMap(identity))
        case .neighbour(let address, let index, let answers):
            return InterpretedEvent(.neighbour(address, answers: answers), identity(of: index))
        case .overrun: return InterpretedEvent(.overrun)
        case .resumed(let time): return InterpretedEvent(.resumed(after: time))
        case .host(let name, let answer): return InterpretedEvent(.host(name, answer))
        // Only its answers can change a path.
        case .resolverChanged: return nil
        }
    }

    private func identity(of index: UInt32) -> NetworkInterface.Identity? { position(of: index).map { all[$0].identity } }

    private mutating func upsert(_ link: NetworkInterface) -> InterpretedEvent {
        var new = link
        // A name is unique, and an interface that is down loses one without a message (netdev_state_change(), net/core/dev.c).
        for place in all.indices where !link.alternativeNames.isEmpty && !all[place].alternativeNames.isEmpty {
            all[place].alternativeNames.removeAll { link.alternativeNames.contains($0) }
        }
        guard let position = position(of: link.index) else {
            new.addresses = []
            all.insert(new, at: firstPosition(notBelow: link.index))
            return InterpretedEvent(.linkAppeared, link.identity)
        }
        let old = all[position]
        new.addresses = old.addresses
        all[position] = new
        return InterpretedEvent(LinkChange(from: old, to: new), new.identity)
    }

    private mutating func upsert(_ address: NetworkInterface.Address, on index: UInt32) -> InterpretedEvent? {
        guard let interface = position(of: index) else { return InterpretedEvent(.address(address, .added)) }
        var wasReady: Bool?
        if let position = all[interface].addresses.firstIndex(where: { $0.isSame(as: address) }) {
            wasReady = all[interface].addresses[position].isReady
            all[interface].addresses[position] = address
        } else {
            all[interface].addresses.append(address)
        }
        // The same message renews lifetimes; it is kept, because the kernel may have changed other state with it.
        let change: InterpretedEvent.AddressChange = wasReady == nil ? .added : wasReady == address.isReady ? .renewed : .madeReady
        return InterpretedEvent(.address(address, change), all[interface].identity)
    }

    private mutating func remove(_ address: NetworkInterface.Address, from index: UInt32) -> InterpretedEvent {
        let position = position(of: index)
        if let position { all[position].addresses.removeAll { $0.isSame(as: address) } }
        return InterpretedEvent(.address(address, .removed), position.map { all[$0].identity })
    }
}

extension NetworkInterface.Address {
    /// Compares the kernel's key of an address on one interface: address and prefix length.
    fileprivate func isSame(as other: Self) -> Bool {
        address == other.address && prefixLength == other.prefixLength
    }
}
