import CNetlink
import Glibc
import Testing

@Suite struct SocketTests {
    @Test func descriptorsCloseOnExec() throws {
        let socket = try Socket()
        #expect(fcntl(cnl_descriptor(socket.handle), F_GETFD) & FD_CLOEXEC != 0)
        let event = cnl_eventfd_open()
        defer { cnl_close_descriptor(event) }
        #expect(fcntl(event, F_GETFD) & FD_CLOEXEC != 0)
        #expect(fcntl(event, F_GETFL) & O_NONBLOCK != 0)
    }

    @Test func closeReleasesDescriptor() throws {
        var handle: OpaquePointer?
        var operation: UnsafePointer<CChar>?
        try #require(cnl_open(&handle, nil, &operation) == 0)
        #expect(operation == nil)
        let descriptor = cnl_descriptor(handle!)
        var status = stat()
        fstat(descriptor, &status)
        let inode = status.st_ino
        cnl_close(handle)
        // A concurrent test may reuse the number, but not the socket's inode.
        #expect(fstat(descriptor, &status) != 0 || status.st_ino != inode)
        cnl_close(nil)
    }

    @Test func receiveBufferMatchesKernel() throws {
        let socket = try Socket()
        var granted: UInt32 = 0
        #expect(cnl_set_receive_buffer(socket.handle, 100_000, &granted) == 0)
        var actual: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(cnl_descriptor(socket.handle), SOL_SOCKET, SO_RCVBUF, &actual, &size)
        #expect(granted == UInt32(actual))
        // The kernel doubles the requested size (socket(7)).
        #expect(granted == 200_000)
        #expect(cnl_set_receive_buffer(socket.handle, .max, &granted) == 0)
        #expect(granted > 200_000)
    }

    @Test func everyGroupCanBeJoined() throws {
        let socket = try Socket()
        // RTNLGRP_LINK, IPV4_ IFADDR, ROUTE, RULE, IPV6_ IFADDR, ROUTE, RULE, IPV4_NETCONF, IPV6_NETCONF, NEXTHOP, NEIGH.
        let groups = Array(UnsafeBufferPointer(start: cnl_groups(), count: cnl_group_count()))
        #expect(Set(groups) == [1, 3, 5, 7, 8, 9, 11, 19, 24, 25, 32] && groups.count == 11)
        for group in groups { #expect(cnl_join(socket.handle, group) == 0) }
        for group in [0, 100_000, .max] as [UInt32] { #expect(cnl_join(socket.handle, group) == -EINVAL) }
    }

    /// The kernel's events must not wait for the first start of the service.
    @Test func unitOfTheSocketHasAllGroups() throws {
        let unit = try #require(readFile("../../Packaging/systemd/system/reachability-netlink.socket"))
        let line = try #require(unit.split(separator: "\n").first { $0.hasPrefix("ListenNetlink=route ") })
        let groups = UnsafeBufferPointer(start: cnl_groups(), count: cnl_group_count())
        #expect(UInt32(line.dropFirst("ListenNetlink=route ".count)) == groups.reduce(0) { $0 | 1 << ($1 - 1) })
    }

    @Test func takenOverSocketKeepsItsQueueAndSize() throws {
        let first = try Socket()
        var granted: UInt32 = 0
        try #require(cnl_set_receive_buffer(first.handle, 50_000, &granted) == 0)
        var sequence: UInt32 = 0
        try #require(cnl_request_links(first.handle, &sequence) == 0)
        let copy = dup(cnl_descriptor(first.handle))
        var handle: OpaquePointer?
        var operation: UnsafePointer<CChar>?
        #expect(cnl_check_socket(copy, nil, &operation) == 0)
        try #require(cnl_take_over(&handle, copy, &operation) == 0)
        defer { cnl_close(handle) }
        #expect(cnl_descriptor(handle!) == copy && fcntl(copy, F_GETFD) & FD_CLOEXEC != 0)
        var size: UInt32 = 0
        #expect(cnl_read_receive_buffer(handle!, &size) == 0 && size == granted)
        var queue = cnl_queue()
        #expect(cnl_read_queue(handle!, &queue) == 0 && queue.bytes > 0)
        // The answer to the first one's request.
        var datagram = cnl_datagram()
        var bytes = [UInt8](repeating: 0, count: Int(CNL_BUFFER_SIZE))
        #expect(cnl_receive(handle!, &bytes, bytes.count, &datagram) > 0 && datagram.port == 0)
        #expect(decode(bytes).first?.sequence == sequence)
    }

    @Test func otherDescriptorsAreNotTakenOver() throws {
        func check(_ descriptor: Int32) -> Int32 {
            var operation: UnsafePointer<CChar>?
            defer { close(descriptor) }
            return cnl_check_socket(descriptor, nil, &operation)
        }
        #expect(check(-1) == -EBADF)
        #expect(check(open("/dev/null", O_RDONLY)) == -ENOTSOCK)
        #expect(check(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)) == -EPROTOTYPE)
        #expect(check(socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)) == -EPROTOTYPE)
        // NETLINK_KOBJECT_UEVENT, and NETLINK_ROUTE without a port.
        #expect(check(socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 15)) == -EPROTOTYPE)
        #expect(check(socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 0)) == -EADDRNOTAVAIL)
    }

    @Test func idleSocketReturnsEAGAIN() throws {
        let socket = try Socket()
        #expect(cnl_set_nonblocking(socket.handle) == 0)
        var datagram = cnl_datagram()
        var byte: UInt8 = 0
        #expect(cnl_receive(socket.handle, &byte, 1, &datagram) == Int64(-EAGAIN))
        var queue = cnl_queue(bytes: 1, drops: 1)
        #expect(cnl_read_queue(socket.handle, &queue) == 0)
        #expect(queue.bytes == 0 && queue.drops == 0)
    }

    @Test func truncationIsReported() throws {
        let socket = try Socket()
        var sequence: UInt32 = 0
        try #require(cnl_request_links(socket.handle, &sequence) == 0)
        var datagram = cnl_datagram()
        var bytes = [UInt8](repeating: 0, count: 20)
        #expect(cnl_receive(socket.handle, &bytes, bytes.count, &datagram) == 20)
        #expect(datagram.is_truncated && datagram.port == 0)
    }

    /// Fills every slot with datagrams from this process; none may overrun.
    @Test(.enabled(if: geteuid() == 0, "writing to another netlink socket takes CAP_NET_ADMIN"))
    func manyDatagramsKeepTheirOrder() throws {
        let (receiver, sender) = (try Socket(), try Socket())
        var granted: UInt32 = 0
        // A buffer for all of them: writing to a full netlink socket blocks (netlink_attachskb).
        try #require(cnl_set_receive_buffer(receiver.handle, 1 << 20, &granted) == 0)
        try #require(cnl_set_nonblocking(receiver.handle) == 0 && cnl_set_nonblocking(sender.handle) == 0)
        let (own, other) = (address(of: receiver), address(of: sender))
        let lengths = [40_000, 100, 16_384, 16_385] + Array(repeating: 8, count: 20)
        for (index, length) in lengths.enumerated() {
            let bytes = [UInt8](repeating: UInt8(index), count: length)
            let sent = withUnsafePointer(to: own) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(cnl_descriptor(sender.handle), bytes, length, 0, $0, socklen_t(MemoryLayout<NetlinkAddress>.size))
                }
            }
            try #require(sent == length)
        }
        let buffer = UnsafeMutableRawPointer.allocate(byteCount: Int(CNL_MANY_BUFFER_SIZE), alignment: 16)
        defer { buffer.deallocate() }
        var datagrams = [cnl_datagram](repeating: cnl_datagram(), count: Int(CNL_DATAGRAM_LIMIT))
        #expect(cnl_receive_many(receiver.handle, buffer, &datagrams, 0) == -EINVAL)
        #expect(cnl_receive_many(receiver.handle, buffer, &datagrams, datagrams.count + 1) == -EINVAL)
        var seen = 0
        for expected in [16, 8] {
            #expect(cnl_receive_many(receiver.handle, buffer, &datagrams, 16) == Int32(expected))
            for datagram in datagrams[..<expected] {
                let place = seen == 0 ? 65_536 : 16_384
                #expect(datagram.length == min(lengths[seen], place) && datagram.is_truncated == (lengths[seen] > place))
                #expect(datagram.port == other.port && datagram.port != 0)
                let bytes = UnsafeRawBufferPointer(start: buffer + Int(datagram.offset), count: Int(datagram.length))
                #expect(bytes.allSatisfy { $0 == UInt8(seen) })
                seen += 1
            }
        }
        #expect(seen == lengths.count)
        #expect(cnl_receive_many(receiver.handle, buffer, &datagrams, 16) == -EAGAIN)
    }

    @Test func strictDumpsAreNumberedInOrder() throws {
        let socket = try Socket()
        #expect(cnl_set_strict(socket.handle) == 0)
        var links: UInt32 = 0
        try #require(cnl_request_links(socket.handle, &links) == 0)
        let first = try socket.dump()
        #expect(first.last?.kind == CNL_DONE && first.last?.error == 0)
        #expect(first.allSatisfy { $0.sequence == links })
        #expect(first.contains { $0.kind == CNL_LINK && $0.link.nameBytes == Array("lo".utf8) && $0.link.hardware_type == 772 })
        var addresses: UInt32 = 0
        try #require(cnl_request_addresses(socket.handle, &addresses) == 0)
        #expect(addresses == links &+ 1)
        let second = try socket.dump()
        #expect(second.last?.kind == CNL_DONE && second.last?.error == 0)
        #expect(second.dropLast().allSatisfy { $0.kind == CNL_ADDRESS && $0.sequence == addresses })
    }

    @Test func lookupNeedsAFamily() throws {
        let socket = try Socket()
        #expect(throws: Failure(errno: EAFNOSUPPORT, operation: "cnl_lookup")) {
            _ = try socket.route(to: cnl_address())
        }
    }

    /// Returns a file of the repository, by its path from this one's directory.
    private func readFile(_ path: String) -> String? {
        guard let file = fopen("\(#filePath.split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" })/\(path)", "r") else {
            return nil
        }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    /// struct sockaddr_nl (netlink(7)), which Glibc lacks.
    private struct NetlinkAddress {
        var family: UInt16 = 0
        var padding: UInt16 = 0
        var port: UInt32 = 0
        var groups: UInt32 = 0
    }

    private func address(of socket: Socket) -> NetlinkAddress {
        var address = NetlinkAddress()
        var size = socklen_t(MemoryLayout<NetlinkAddress>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(cnl_descriptor(socket.handle), $0, &size)
            }
        }
        return address
    }
}

/// Filters on a real socket, which drop the answers to its own requests.
@Suite struct FilterTests {
    /// BPF_RET | BPF_K of linux/filter.h.
    private let accept = cnl_instruction(code: 0x06, if_true: 0, if_false: 0, operand: .max)
    private let drop = cnl_instruction(code: 0x06, if_true: 0, if_false: 0, operand: 0)

    /// Returns `true` if an answer arrives; the kernel answers before a request returns.
    private func hears(_ socket: Socket) throws -> Bool {
        var sequence: UInt32 = 0
        try #require(cnl_request_links(socket.handle, &sequence) == 0)
        return cnl_wait([cnl_descriptor(socket.handle)], 1, 0) == 1
    }

    @Test func filterIsAttachedReplacedAndRemoved() throws {
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

    @Test func rejectedFilterKeepsEarlierOne() throws {
        let socket = try Socket()
        #expect(socket.filter([drop]) == 0)
        // The program lacks a return.
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
