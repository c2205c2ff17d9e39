import CNetlink
import Glibc
import Testing

/// Filters on a real socket; the answers to its own requests are what it drops.
@Suite struct FilterTests {
    /// BPF_RET | BPF_K of linux/filter.h.
    private let accept = cnl_instruction(code: 0x06, if_true: 0, if_false: 0, operand: .max)
    private let drop = cnl_instruction(code: 0x06, if_true: 0, if_false: 0, operand: 0)

    /// Whether an answer arrives; the kernel has answered when a request returns.
    private func hears(_ socket: Socket) throws -> Bool {
        var sequence: UInt32 = 0
        try #require(cnl_request_links(socket.handle, &sequence) == 0)
        return cnl_wait([cnl_descriptor(socket.handle)], 1, 0) == 1
    }

    @Test func aFilterDropsAndIsReplacedAndRemoved() throws {
        let socket = try Socket()
        #expect(socket.filter([]) == 0)
        #expect(socket.filter([drop]) == 0)
        #expect(try !hears(socket))
        var queue = cnl_queue(bytes: 1, drops: 1)
        #expect(cnl_read_queue(socket.handle, &queue) == 0 && queue.bytes == 0 && queue.drops == 0)

        let second = try Socket()
        #expect(second.filter([drop]) == 0)
        #expect(second.filter([accept]) == 0)
        #expect(try hears(second))

        let third = try Socket()
        #expect(third.filter([drop]) == 0)
        #expect(third.filter([]) == 0)
        #expect(try hears(third))
    }

    @Test func aProgramThatTheKernelRefusesLeavesTheEarlierOne() throws {
        let socket = try Socket()
        #expect(socket.filter([drop]) == 0)
        // It would run off its end.
        #expect(socket.filter([cnl_instruction(code: 0x00, if_true: 0, if_false: 0, operand: 1)]) == -EINVAL)
        #expect(socket.filter(Array(repeating: accept, count: 4097)) == -EINVAL)
        #expect(socket.filter(Array(repeating: accept, count: 65537)) == -EINVAL)
        #expect(try !hears(socket))
    }
}

extension Socket {
    fileprivate func filter(_ program: [cnl_instruction]) -> Int32 {
        cnl_set_filter(cnl_descriptor(handle), program, program.count)
    }
}
