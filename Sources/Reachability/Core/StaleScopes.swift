/// The scopes whose answer may be out of date.
struct StaleScopes: Equatable, Sendable {
    private var families: FamilySet = []
    private var scopes: Set<Scope> = []

    init() {}

    /// All scopes.
    static var all: StaleScopes {
        var stale = StaleScopes()
        stale.families = .all
        return stale
    }

    var isEmpty: Bool { families.isEmpty && scopes.isEmpty }

    /// Returns true if a scope with addresses of these families is stale; a scope without addresses is stale with any other.
    func contains(_ scope: Scope, with families: FamilySet) -> Bool {
        if isEmpty { return false }
        return families.isEmpty || !self.families.isDisjoint(with: families) || contains(scope)
    }

    /// Returns the families of a stale scope to look up: a route or address of one says nothing about the other.
    func families(of scope: Scope, among families: FamilySet) -> FamilySet {
        families.isEmpty || contains(scope) ? .all : self.families.intersection(families)
    }

    private func contains(_ scope: Scope) -> Bool { !scopes.isEmpty && scopes.contains(scope) }

    mutating func insert(_ family: IPAddress.Family) { families.formUnion(FamilySet(family)) }

    mutating func insert(_ scope: Scope) { scopes.insert(scope) }

    mutating func formUnion(_ other: StaleScopes) {
        families.formUnion(other.families)
        if !other.scopes.isEmpty { scopes.formUnion(other.scopes) }
    }

    /// Adds the scopes that an event can concern.
    ///
    /// A route decides about the addresses that it covers, and an address about its family. Any other event concerns all scopes:
    /// a link takes routes of both families along or brings them back without messages, and rules and next hops apply to every
    /// route that leads through them.
    mutating func insert(_ event: InterpretedEvent, _ index: DestinationIndex) {
        switch event.kind {
        case .route(let change):
            // A default route, or half of one, covers too many for a list.
            if change.destination.length <= 1 { return insert(change.destination.address.family) }
            for scope in index.scopes(in: change.destination) { scopes.insert(scope) }
        case .address(let address, _): insert(address.address.family)
        // The core knows the scopes of a name.
        case .host: break
        default: self = .all
        }
    }
}

/// None, one or both of the address families.
package struct FamilySet: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The set of one family.
    package init(_ family: IPAddress.Family) { rawValue = family == .ipv4 ? 1 : 2 }

    /// Both families.
    package static let all = FamilySet(rawValue: 3)
}

/// The scopes of each destination, ordered by address, so that the scopes under a prefix are found without a scan.
package struct DestinationIndex: Sendable {
    private struct Entry {
        var value: UInt128
        var scope: Scope
    }

    private var ipv4: [Entry] = []
    private var ipv6: [Entry] = []

    package init() {}

    /// Makes the index of scopes and their destinations.
    package init(_ destinations: some Sequence<(scope: Scope, addresses: [IPAddress])>) {
        for (scope, addresses) in destinations {
            for address in addresses {
                let entry = Entry(value: address.value, scope: scope)
                if address.family == .ipv4 { ipv4.append(entry) } else { ipv6.append(entry) }
            }
        }
        ipv4.sort { $0.value < $1.value }
        ipv6.sort { $0.value < $1.value }
    }

    /// All destinations.
    package var addresses: Set<IPAddress> {
        Set(ipv4.map { IPAddress(family: .ipv4, value: $0.value) } + ipv6.map { IPAddress(family: .ipv6, value: $0.value) })
    }

    /// Returns the scopes with a destination in a block; a scope with several comes several times.
    package func scopes(in block: IPPrefix) -> some Sequence<Scope> {
        let entries = entries(of: block)
        let last = Self.last(of: block)
        return entries[Self.firstIndex(in: entries, notBelow: block.address.value)...].lazy.prefix { $0.value <= last }.map(\.scope)
    }

    /// Returns true if a scope has a destination in a block.
    package func isConcerned(by block: IPPrefix) -> Bool {
        let entries = entries(of: block)
        let first = Self.firstIndex(in: entries, notBelow: block.address.value)
        return first < entries.count && entries[first].value <= Self.last(of: block)
    }

    private func entries(of block: IPPrefix) -> [Entry] { block.address.family == .ipv4 ? ipv4 : ipv6 }

    /// Returns the greatest address of a block.
    private static func last(of block: IPPrefix) -> UInt128 {
        let free = block.address.family.bitWidth - block.length
        return free == 128 ? .max : block.address.value | ((1 << UInt128(free)) - 1)
    }

    private static func firstIndex(in entries: [Entry], notBelow value: UInt128) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].value < value { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
