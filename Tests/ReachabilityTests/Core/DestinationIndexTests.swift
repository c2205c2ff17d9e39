import Reachability
import ReachabilityTesting
import Testing

struct DestinationIndexTests {
    @Test func prefixFindsItsAddresses() {
        let index = DestinationIndex([
            (.internet, [ip("1.1.1.1"), ip("198.41.0.4"), ip("2001:db8::1")]), (.address(ip("198.41.0.5")), [ip("198.41.0.5")]),
        ])
        #expect(Set(index.scopes(in: IPPrefix(ip("198.41.0.0"), length: 24))) == [.internet, .address(ip("198.41.0.5"))])
        #expect(Array(index.scopes(in: IPPrefix(ip("198.41.0.5"), length: 32))) == [.address(ip("198.41.0.5"))])
        #expect(index.isConcerned(by: .all(.ipv4)) && index.isConcerned(by: .all(.ipv6)))
        #expect(!index.isConcerned(by: IPPrefix(ip("198.41.1.0"), length: 24)))
        #expect(index.addresses == [ip("1.1.1.1"), ip("198.41.0.4"), ip("2001:db8::1"), ip("198.41.0.5")])
        #expect(!DestinationIndex().isConcerned(by: .all(.ipv4)))
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func indexAgreesWithAScan(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        func address() -> IPAddress {
            // Few bits that matter, so that prefixes and addresses meet; those at both ends, too.
            let high = UInt128(UInt8.random(in: 0...255, using: &generator))
            let low = UInt128.random(in: 0...3, using: &generator)
            return Bool.random(using: &generator)
                ? IPAddress(family: .ipv4, value: high << 24 | low) : IPAddress(family: .ipv6, value: high << 120 | low)
        }
        let asked = (0..<200).map { _ in address() }.map { (scope: Scope.address($0), addresses: [$0]) }
        let index = DestinationIndex(asked)
        for _ in 0..<2000 {
            let first = address()
            let block = IPPrefix(first, length: Int.random(in: 0...first.family.bitWidth, using: &generator))
            let expected = Set(asked.filter { block.contains($0.addresses[0]) }.map(\.scope))
            guard Set(index.scopes(in: block)) != expected else { continue }
            Issue.record("seed \(seed): \(block)")
        }
    }
}
