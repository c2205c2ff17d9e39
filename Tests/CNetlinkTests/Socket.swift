import CNetlink
import Glibc

/// The errno and the operation of a failed call.
struct Failure: Error, Equatable {
    let errno: Int32
    let operation: String
}

/// A socket that closes itself.
final class Socket {
    let handle: OpaquePointer
    private let buffer = UnsafeMutableRawPointer.allocate(byteCount: Int(CNL_BUFFER_SIZE), alignment: 8)

    init(namespace: String? = nil) throws(Failure) {
        var handle: OpaquePointer?
        var operation: UnsafePointer<CChar>?
        let result = cnl_open(&handle, namespace, &operation)
        guard result == 0, let handle else {
            buffer.deallocate()
            throw Failure(errno: -result, operation: operation.map { String(cString: $0) } ?? "")
        }
        self.handle = handle
        _ = cnl_set_receive_timeout(handle, 10_000)
    }

    deinit {
        cnl_close(handle)
        buffer.deallocate()
    }

    /// Reads one datagram from the kernel.
    func receive() throws(Failure) -> [cnl_message] {
        var datagram = cnl_datagram()
        let length = cnl_receive(handle, buffer, Int(CNL_BUFFER_SIZE), &datagram)
        guard length >= 0, datagram.port == 0, !datagram.is_truncated else {
            throw Failure(errno: Int32(clamping: -length), operation: "cnl_receive")
        }
        return decode(Array(UnsafeRawBufferPointer(start: buffer, count: Int(length))))
    }

    /// Reads up to the end of a dump.
    func dump() throws(Failure) -> [cnl_message] {
        var messages: [cnl_message] = []
        repeat { messages += try receive() } while !messages.contains { $0.kind == CNL_DONE || $0.kind == CNL_ERROR }
        return messages
    }

    /// Returns the kernel's answer to a lookup.
    func route(to destination: cnl_address, matching: Bool = false) throws(Failure) -> cnl_message {
        var query = cnl_route_query()
        query.destination = destination
        query.fib_match = matching
        query.has_mark = true
        query.has_uid = true
        return try lookUp([query])[0]
    }

    /// Returns the kernel's answers to lookups.
    func lookUp(_ queries: [cnl_route_query]) throws(Failure) -> [cnl_message] {
        var answers = [cnl_message](repeating: cnl_message(), count: queries.count)
        let result = cnl_lookup(handle, queries, queries.count, buffer, &answers)
        guard result == 0 else { throw Failure(errno: -result, operation: "cnl_lookup") }
        return answers
    }
}

extension cnl_address {
    init(_ text: String) {
        self.init()
        let family = text.contains(":") ? AF_INET6 : AF_INET
        let isAddress = withUnsafeMutableBytes(of: &bytes) { inet_pton(family, text, $0.baseAddress) == 1 }
        precondition(isAddress, "\(text) is no address")
        self.family = UInt8(family)
    }
}
