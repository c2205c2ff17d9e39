import CNetlink
import Glibc

/// Netlink messages built byte by byte, independently of the decoder.
struct Frame {
    private(set) var bytes: [UInt8] = []

    /// Creates a message of `type` with a fixed part and attributes.
    init(type: UInt16, flags: UInt16 = 0, sequence: UInt32 = 0, fixed: [UInt8] = [], _ attributes: [Attribute] = []) {
        var body = fixed
        Frame.pad(&body)
        for attribute in attributes { body += attribute.bytes }
        bytes = Frame.raw(UInt32(16 + body.count)) + Frame.raw(type) + Frame.raw(flags) + Frame.raw(sequence) + Frame.raw(UInt32(0))
        bytes += body
    }

    static func link(
        type: UInt16 = 16, family: UInt8 = 0, hardware: UInt16 = 1, index: Int32 = 7, flags: UInt32 = 0x1_1043,
        change: UInt32 = .max, isWhole: Bool = true, _ attributes: [Attribute]
    ) -> [UInt8] {
        let fixed = [family, 0] + raw(hardware) + raw(index) + raw(flags) + raw(change)
        // IFLA_OPERSTATE and IFLA_CARRIER_CHANGES, before the others: of two attributes of a type the later one counts.
        let state = isWhole ? [Attribute(16, [6]), Attribute(35, 0)] : []
        return Frame(type: type, fixed: fixed, state + attributes).bytes
    }

    static func address(
        type: UInt16 = 20, family: UInt8, prefix: UInt8, flags: UInt8 = 0x80, scope: UInt8 = 0, index: UInt32 = 7,
        _ attributes: [Attribute]
    ) -> [UInt8] {
        Frame(type: type, fixed: [family, prefix, flags, scope] + raw(index), attributes).bytes
    }

    static func route(
        type: UInt16 = 24, messageFlags: UInt16 = 0, family: UInt8 = 2, prefix: UInt8 = 0, table: UInt8 = 254,
        scope: UInt8 = 0, kind: UInt8 = 1, flags: UInt32 = 0, _ attributes: [Attribute]
    ) -> [UInt8] {
        let fixed: [UInt8] = [family, prefix, 0, 0, table, 3, scope, kind] + raw(flags)
        return Frame(type: type, flags: messageFlags, fixed: fixed, attributes).bytes
    }

    static func raw(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value) { Array($0) }
    }

    static func pad(_ bytes: inout [UInt8]) {
        while bytes.count % 4 != 0 { bytes.append(0) }
    }
}

/// A padded attribute.
struct Attribute {
    let bytes: [UInt8]

    init(_ type: UInt16, _ payload: [UInt8]) {
        var bytes = Frame.raw(UInt16(4 + payload.count)) + Frame.raw(type) + payload
        Frame.pad(&bytes)
        self.bytes = bytes
    }

    init(_ type: UInt16, _ value: UInt32) { self.init(type, Frame.raw(value)) }
    init(_ type: UInt16, text: String) { self.init(type, Array(text.utf8) + [0]) }
    init(_ type: UInt16, nested: [Attribute]) { self.init(type, nested.flatMap(\.bytes)) }

    /// Creates an invalid attribute.
    init(broken bytes: [UInt8]) { self.bytes = bytes }
}

/// Decodes all messages of a datagram.
func decode(_ datagram: [UInt8]) -> [cnl_message] {
    var messages: [cnl_message] = []
    var message = cnl_message()
    var offset = 0
    datagram.withUnsafeBytes { bytes in
        guard let base = bytes.baseAddress else { return }
        while messages.count <= bytes.count, cnl_decode(base, bytes.count, &offset, &message) { messages.append(message) }
    }
    return messages
}

/// Decodes a datagram of exactly one message.
func decodeOne(_ datagram: [UInt8]) -> cnl_message? {
    let messages = decode(datagram)
    return messages.count == 1 ? messages[0] : nil
}

func kinds(_ datagram: [UInt8]) -> [cnl_kind] { decode(datagram).map(\.kind) }

extension cnl_address {
    /// The used bytes.
    var octets: [UInt8] { withUnsafeBytes(of: bytes) { Array($0.prefix(family == 0 ? 0 : family == 2 ? 4 : 16)) } }
}

extension cnl_link {
    var nameBytes: [UInt8] { withUnsafeBytes(of: name) { Array($0.prefix { $0 != 0 }) } }
    var kindText: String { withUnsafeBytes(of: kind) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) } }
}

/// Memory before an inaccessible page: reading one byte too far kills the process.
final class GuardedMemory {
    private let start: UnsafeMutableRawPointer
    private let page = Int(sysconf(Int32(_SC_PAGESIZE)))
    private let capacity: Int

    init(pages: Int) {
        capacity = pages * page
        guard let memory = mmap(nil, capacity + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            memory != MAP_FAILED, mprotect(memory + capacity, page, PROT_NONE) == 0
        else { preconditionFailure("mmap of test memory failed") }
        start = memory
    }

    deinit { munmap(start, capacity + page) }

    /// Decodes a copy of `datagram`; `nil` if decoding does not end.
    func decode(_ datagram: ArraySlice<UInt8>) -> [cnl_message]? {
        let copy = start + (capacity - datagram.count)
        datagram.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress { copy.copyMemory(from: base, byteCount: bytes.count) }
        }
        var messages: [cnl_message] = []
        var message = cnl_message()
        var offset = 0
        while cnl_decode(copy, datagram.count, &offset, &message) {
            messages.append(message)
            // Lists that are read later stay within the datagram, too.
            var (names, hops) = (UInt32(0), UInt32(0))
            var (name, hop) = ([CChar](repeating: 0, count: Int(CNL_LONG_NAME_SIZE)), cnl_hop())
            while cnl_next_name(copy, &message.link, &names, &name) {}
            while cnl_next_hop(copy, &message.route, &hops, &hop) {}
            if messages.count > datagram.count || offset > datagram.count { return nil }
        }
        return messages
    }
}
