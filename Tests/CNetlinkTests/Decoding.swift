import CNetlink
import Glibc

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

/// Decodes a datagram that is to hold exactly one message.
func decodeOne(_ datagram: [UInt8]) -> cnl_message? {
    let messages = decode(datagram)
    return messages.count == 1 ? messages[0] : nil
}

func kinds(_ datagram: [UInt8]) -> [cnl_kind] { decode(datagram).map(\.kind) }

extension cnl_address {
    /// The bytes that count.
    var octets: [UInt8] { withUnsafeBytes(of: bytes) { Array($0.prefix(family == 0 ? 0 : family == 2 ? 4 : 16)) } }
}

extension cnl_link {
    var nameBytes: [UInt8] { withUnsafeBytes(of: name) { Array($0.prefix { $0 != 0 }) } }
    var kindText: String { withUnsafeBytes(of: kind) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) } }
}

/// Memory that ends where an inaccessible page begins: reading one byte too far kills the process.
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

    /// Decodes a copy of `datagram`; nil if that took more messages than a datagram of its length can hold.
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
            if messages.count > datagram.count || offset > datagram.count { return nil }
        }
        return messages
    }
}
