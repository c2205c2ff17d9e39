/// Which scopes ask about which addresses, in the addresses' order: what a prefix covers is found without a look at all of them.
package struct DestinationIndex: Sendable {
    private struct Entry {
        var value: UInt128
        var scope: Scope
    }

    private var ipv4: [Entry] = []
    private var ipv6: [Entry] = []

    package init() {}

    /// Makes the index of scopes and the addresses that they ask about.
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

    /// All addresses.
    package var addresses: Set<IPAddress> {
        Set(ipv4.map { IPAddress(family: .ipv4, value: $0.value) } + ipv6.map { IPAddress(family: .ipv6, value: $0.value) })
    }

    /// The scopes that ask about an address of a block; one that asks about several comes several times.
    package func scopes(in block: IPPrefix) -> some Sequence<Scope> {
        let entries = entries(of: block)
        let last = Self.last(of: block)
        return entries[Self.firstIndex(in: entries, notBelow: block.address.value)...].lazy.prefix { $0.value <= last }.map(\.scope)
    }

    /// Whether anybody asks about an address of a block.
    package func isConcerned(by block: IPPrefix) -> Bool {
        let entries = entries(of: block)
        let first = Self.firstIndex(in: entries, notBelow: block.address.value)
        return first < entries.count && entries[first].value <= Self.last(of: block)
    }

    private func entries(of block: IPPrefix) -> [Entry] { block.address.family == .ipv4 ? ipv4 : ipv6 }

    /// The greatest address of a block.
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
