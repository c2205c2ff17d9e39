import CNetlink
import Glibc
import Testing

/// Recorded traffic of a real kernel, intact and damaged.
@Suite struct FixtureTests {
    @Test(arguments: Fixture.names) func recordedTrafficIsDecoded(name: String) throws {
        let fixture = try #require(Fixture(name))
        #expect(!fixture.datagrams.isEmpty)
        for datagram in fixture.datagrams {
            #expect(!kinds(datagram).contains(CNL_MALFORMED))
        }
    }

    @Test func routeReplacementIsOneMessage() throws {
        let messages = try #require(Fixture("route_replace")).datagrams.flatMap(decode)
        let routes = messages.filter { $0.kind == CNL_ROUTE && $0.route.destination_length == 0 }
        #expect(routes.contains { $0.is_replacement })
        #expect(!messages.contains { $0.kind == CNL_ROUTE_GONE && $0.route.destination_length == 0 })
    }

    @Test func leavingABridgeDeletesNoLink() throws {
        let messages = try #require(Fixture("bridge_port_carrier")).datagrams.flatMap(decode)
        #expect(messages.contains { $0.kind == CNL_OTHER && $0.family == 7 })
        #expect(messages.contains { $0.kind == CNL_LINK && $0.link.master != 0 })
        #expect(messages.contains { $0.kind == CNL_LINK && $0.link.kindText == "bridge" })
    }

    @Test func deletedInterfaceIsAnnounced() throws {
        let messages = try #require(Fixture("iface_delete")).datagrams.flatMap(decode)
        let gone = messages.filter { $0.kind == CNL_LINK_GONE }
        #expect(!gone.isEmpty && gone.allSatisfy { $0.link.index > 0 && !$0.link.nameBytes.isEmpty && $0.link.kindText == "veth" })
    }

    @Test func tentativeAddressIsMarked() throws {
        let messages = try #require(Fixture("addr_add")).datagrams.flatMap(decode)
        let addresses = messages.filter { $0.kind == CNL_ADDRESS }
        #expect(addresses.contains { $0.address.local.family == 2 && $0.address.prefix_length == 24 })
        #expect(addresses.contains { $0.address.local.family == 10 && $0.address.flags & 0x40 != 0 })
    }

    @Test func nexthopsAndRulesAreDecoded() throws {
        let hops = try #require(Fixture("nh_del_single")).datagrams.flatMap(decode)
        #expect(hops.contains { $0.kind == CNL_NEXTHOP_GONE && $0.identifier != 0 })
        let rules = try #require(Fixture("rule_add_del")).datagrams.flatMap(decode)
        #expect(rules.contains { $0.kind == CNL_RULE && $0.family == 2 } && rules.contains { $0.kind == CNL_RULE_GONE })
        let blackholes = try #require(Fixture("blackhole_default")).datagrams.flatMap(decode)
        #expect(blackholes.contains { $0.kind == CNL_ROUTE && $0.route.type == 6 })
    }

    @Test(arguments: Fixture.names) func everyTruncationEndsDecoding(name: String) throws {
        let memory = GuardedMemory(pages: 16)
        for datagram in try #require(Fixture(name)).datagrams {
            let whole = try #require(memory.decode(datagram[...])).count
            for length in 0..<datagram.count {
                let messages = try #require(memory.decode(datagram.prefix(length)), "\(name) cut to \(length) bytes does not end")
                #expect(messages.count <= whole)
            }
        }
    }

    @Test(arguments: Fixture.names) func everyCorruptionEndsDecoding(name: String) throws {
        let memory = GuardedMemory(pages: 16)
        for original in try #require(Fixture(name)).datagrams {
            var datagram = original
            for index in datagram.indices {
                for value in [0, 1, 0x7F, 0xFF, original[index] ^ 0x80, original[index] &+ 1] as [UInt8] {
                    datagram[index] = value
                    let messages = memory.decode(datagram[...])
                    try #require(messages != nil, "\(name) with byte \(index) set to \(value) does not end")
                }
                datagram[index] = original[index]
            }
        }
    }

    @Test(arguments: Fixture.names) func decodingIsDeterministic(name: String) throws {
        for datagram in try #require(Fixture(name)).datagrams {
            let size = MemoryLayout<cnl_message>.size
            let first = UnsafeMutablePointer<cnl_message>.allocate(capacity: 1)
            let second = UnsafeMutablePointer<cnl_message>.allocate(capacity: 1)
            defer {
                first.deallocate()
                second.deallocate()
            }
            var offset = 0
            var offsetAgain = 0
            repeat {
                memset(first, 0x00, size)
                memset(second, 0xFF, size)
                guard cnl_decode(datagram, datagram.count, &offset, first) else { break }
                #expect(cnl_decode(datagram, datagram.count, &offsetAgain, second))
                #expect(memcmp(first, second, size) == 0)
            } while offset == offsetAgain
            #expect(offset == datagram.count)
        }
    }
}

/// Recorded traffic: each record is 8 bytes of monotonic nanoseconds and 4 bytes of length, little-endian, and a datagram.
struct Fixture {
    let name: String
    let datagrams: [[UInt8]]

    static let names = [
        "addr_add", "addr_del_v6", "addr_flush", "blackhole_default", "bridge_port_carrier", "disable_ipv6", "half_defaults",
        "iface_delete", "mp_v6_del_one_next_hop", "nh_del_single", "nh_replace", "rename_up", "route_append", "route_replace",
        "rule_add_del",
    ]

    init?(_ name: String) {
        let folder = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        guard let file = fopen("\(folder)/Fixtures/\(name).nl", "rb") else { return nil }
        defer { fclose(file) }
        var datagrams: [[UInt8]] = []
        var header = [UInt8](repeating: 0, count: 12)
        while fread(&header, 1, header.count, file) == header.count {
            let length = header[8...].reversed().reduce(0) { $0 << 8 | Int($1) }
            var datagram = [UInt8](repeating: 0, count: length)
            guard fread(&datagram, 1, length, file) == length else { return nil }
            datagrams.append(datagram)
        }
        self.name = name
        self.datagrams = datagrams
    }
}
