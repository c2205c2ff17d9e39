import Glibc
import Testing

@testable import Reachability

struct EpollTests {
    /// A concurrent fork(2) has the same effect: the child has a copy until execve(2).
    @Test func closedSocketLeavesEpollDespiteCopies() throws {
        let epoll = try Epoll()
        var socket = try NetlinkSocket(namespace: nil)
        try socket.report(to: epoll, at: 0b100)
        let copy = dup(socket.descriptor)
        try #require(copy >= 0)
        defer { close(copy) }
        // NLMSG_NOOP with NLM_F_REQUEST and NLM_F_ACK: the kernel answers before send(2) returns (netlink_rcv_skb).
        let noop: [UInt32] = [16, 5 << 16 | 1, 1, 0]
        #expect(send(copy, noop, 16, 0) == 16)
        #expect(try epoll.wait(nanoseconds: 0) == 0b100)
        _ = consume socket
        #expect(try epoll.wait(nanoseconds: 0) == 0)
    }

    @Test func socketMayOutliveEpoll() throws {
        var socket = try NetlinkSocket(namespace: nil)
        do {
            let epoll = try Epoll()
            try socket.report(to: epoll, at: 1)
        }
        let other = try Epoll()
        _ = consume socket
        #expect(try other.wait(nanoseconds: 0) == 0)
    }
}
