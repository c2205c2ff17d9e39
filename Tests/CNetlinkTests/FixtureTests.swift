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

    /// An attribute that is missing changes nothing but what the kernel says by leaving it out.
    @Test(arguments: Fixture.names) func missingAttributeChangesNothingElse(name: String) throws {
        var dropped = 0
        for datagram in try #require(Fixture(name)).datagrams {
            for message in RawMessage.messages(of: datagram) {
                guard let whole = decodeOne(message.bytes) else { continue }
                for (index, attribute) in message.attributes.enumerated() {
                    let decoded = try #require(decodeOne(message.dropping(index)))
                    if decoded.kind == CNL_OTHER || decoded.kind == CNL_MALFORMED { continue }
                    dropped += 1
                    let changes = Meaning.changes(from: whole, to: decoded)
                    var allowed = Meaning.absent[message.group]?[attribute.type] ?? []
                    // The end of a link needs no state.
                    if decoded.kind == CNL_LINK_GONE, [16, 35].contains(attribute.type) { allowed.insert("link") }
                    #expect(
                        changes.isSubset(of: allowed), "\(name): type \(message.type) without \(attribute.type) changes \(changes)")
                }
            }
        }
        #expect(dropped > 0)
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
        "addr_add", "addr_del_v6", "expires_v6", "addr_flush", "blackhole_default", "bridge_port_carrier", "disable_ipv6",
        "half_defaults",
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

/// A message and its attributes, cut independently of the decoder.
private struct RawMessage {
    /// Types of messages with the same attributes.
    enum Group { case link, address, route, rule, nexthop, netconf, other }

    let bytes: [UInt8]
    let type: UInt16
    let group: Group
    private(set) var attributes: [(type: UInt16, range: Range<Int>)] = []

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
        type = UInt16(bytes[4]) | UInt16(bytes[5]) << 8
        let size: Int
        switch type {
        case 16, 17: (group, size) = (.link, 16)
        case 20, 21: (group, size) = (.address, 8)
        case 24, 25: (group, size) = (.route, 12)
        case 32, 33: (group, size) = (.rule, 12)
        case 80, 81: (group, size) = (.netconf, 4)
        case 104, 105: (group, size) = (.nexthop, 8)
        default: (group, size) = (.other, bytes.count)
        }
        var position = 16 + size
        while position + 4 <= bytes.count {
            let length = Int(bytes[position]) | Int(bytes[position + 1]) << 8
            let type = UInt16(bytes[position + 2]) | UInt16(bytes[position + 3] & 0x3f) << 8
            let end = min(bytes.count, position + (length + 3) & ~3)
            attributes.append((type, position..<end))
            position = max(end, position + 4)
        }
    }

    static func messages(of datagram: [UInt8]) -> [RawMessage] {
        var messages: [RawMessage] = []
        var position = 0
        while position + 16 <= datagram.count {
            let length = (0..<4).reversed().reduce(0) { $0 << 8 | Int(datagram[position + $1]) }
            messages.append(RawMessage(Array(datagram[position..<(position + length)])))
            position += (length + 3) & ~3
        }
        return messages
    }

    func dropping(_ index: Int) -> [UInt8] {
        var rest = bytes
        rest.removeSubrange(attributes[index].range)
        rest.replaceSubrange(0..<4, with: Frame.raw(UInt32(rest.count)))
        return rest
    }
}

/// The parts of decoded messages, by name.
private enum Meaning {
    /// The meaning of an attribute's absence (linux/if_link.h, if_addr.h, rtnetlink.h).
    static let absent: [RawMessage.Group: [UInt16: Set<String>]] = [
        .link: [1: ["address"], 5: ["lower"], 10: ["master"], 18: ["kind"], 37: ["lower"], 52: ["names"]],
        // IPv4 leaves out 0.0.0.0 (inet_fill_ifaddr, net/ipv4/devinet.c).
        .address: [2: ["interfaceAddress"], 8: ["flags"]],
        .route: [
            4: ["interface"], 5: ["gateway"], 6: ["metric"], 7: ["source"], 9: ["hops", "interface", "gateway"], 12: ["expires"],
            18: ["gateway"], 30: ["nexthop"],
        ],
    ]

    static func changes(from one: cnl_message, to other: cnl_message) -> Set<String> {
        let (before, after) = (parts(one), parts(other))
        return Set(before.keys.filter { before[$0] != after[$0] })
    }

    private static func parts(_ message: cnl_message) -> [String: [UInt64]] {
        let (link, address, route) = (message.link, message.address, message.route)
        func bytes(_ value: cnl_address) -> [UInt64] { [UInt64(value.family)] + value.octets.map(UInt64.init) }
        return [
            "message": [UInt64(message.kind.rawValue), UInt64(message.family), UInt64(message.identifier)],
            "link": [UInt64(link.index), UInt64(link.flags), UInt64(link.carrier_changes), UInt64(link.hardware_type)]
                + [UInt64(link.operational_state)] + link.nameBytes.map(UInt64.init),
            "master": [UInt64(link.master)], "lower": [UInt64(link.lower)], "kind": link.kindText.utf8.map(UInt64.init),
            "address": [UInt64(link.hardware_address_length)], "names": [UInt64(link.names_length)],
            "interfaceAddress": [UInt64(address.interface), UInt64(address.prefix_length)] + bytes(address.local),
            "flags": [UInt64(address.flags)],
            "route": [UInt64(route.family), UInt64(route.destination_length), UInt64(route.type), UInt64(route.table)]
                + bytes(route.destination),
            "interface": [UInt64(route.interface)], "gateway": bytes(route.gateway), "metric": [UInt64(route.metric)],
            "source": bytes(route.source), "nexthop": [UInt64(route.nexthop)], "expires": [UInt64(route.expires)],
            "hops": [UInt64(route.hops_length)],
        ]
    }
}
