import Glibc
import Reachability
import TestSupport

/// A pair of local sockets with a filter on the receiving one.
///
/// The kernel runs the program as on a netlink socket: the same check, the same loads, the same search for attributes.
final class FilteredPair {
    private var ends: [Int32] = [-1, -1]

    init(_ filter: EventFilter) throws {
        guard socketpair(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0, &ends) == 0 else { throw SystemFailure("socketpair") }
        try attach(filter.instructions)
    }

    deinit { for end in ends { close(end) } }

    private func attach(_ instructions: [EventFilter.Instruction]) throws {
        // struct sock_filter: code, jt, jf, k.
        let code = UnsafeMutableRawBufferPointer.allocate(byteCount: 8 * instructions.count, alignment: 8)
        defer { code.deallocate() }
        for (index, instruction) in instructions.enumerated() {
            code.storeBytes(of: instruction.code, toByteOffset: 8 * index, as: UInt16.self)
            code.storeBytes(of: instruction.jt, toByteOffset: 8 * index + 2, as: UInt8.self)
            code.storeBytes(of: instruction.jf, toByteOffset: 8 * index + 3, as: UInt8.self)
            code.storeBytes(of: instruction.k, toByteOffset: 8 * index + 4, as: UInt32.self)
        }
        // struct sock_fprog: count and address.
        let program: [UInt] = [UInt(UInt16(instructions.count)), UInt(bitPattern: code.baseAddress)]
        let result = setsockopt(ends[1], SOL_SOCKET, SO_ATTACH_FILTER, program, socklen_t(program.count * MemoryLayout<UInt>.size))
        guard result == 0 else { throw SystemFailure("setsockopt") }
    }

    /// Sends a datagram and returns `true` if it arrived.
    func passes(_ frame: [UInt8]) throws -> Bool {
        guard send(ends[0], frame, frame.count, 0) == frame.count else { throw SystemFailure("send") }
        var buffer = [UInt8](repeating: 0, count: frame.count + 1)
        let count = recv(ends[1], &buffer, buffer.count, Int32(MSG_DONTWAIT))
        if count < 0 && errno == EAGAIN { return false }
        guard count == frame.count else { throw SystemFailure("recv") }
        return true
    }
}
