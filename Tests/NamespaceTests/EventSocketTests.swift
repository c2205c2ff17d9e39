import Foundation
import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Event sockets that lose events.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct EventSocketTests {
    /// The kernel drops events, and the queue stays empty.
    @Test func deafSocketIsReplaced() async throws {
        let network = try await CabledNetwork()
        try await network.stopAddressGeneration()
        try await network.addIPv4()
        try await network.watching { watcher in
            let reader = try #require(try await Self.eventSocket(in: network))
            let deaf = try await DeafSocket.open(in: network)
            // No check may be owed to earlier events: it would count the drops as a loss.
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
            try await watcher.expect(.satisfied) { try await network.near.ip("route add default via 192.0.2.1 dev cable0") }
            for await _ in watcher.monitor.healthUpdates { break }
            #expect(dup2(deaf, reader) == reader)
            close(deaf)
            // The wake-up triggers the next drop check.
            for await health in watcher.monitor.healthUpdates where health.reopens > 0 { break }
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
            try await watcher.expect(.satisfied) { try await network.near.ip("route add default via 192.0.2.1 dev cable0") }
            let health = watcher.monitor.health
            #expect(health.reopens == 1 && health.losses == 1 && health.drops > 0 && health.mode == .live)
        }
    }

    /// A lone datagram is delivered before the drop check, and no event follows it.
    @Test func lossAfterLoneDatagramIsFoundAtOnce() async throws {
        // Without addresses: the kernel reports nothing of its own accord.
        let network = try await CabledNetwork()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let (batches, running) = kernel.deliveries()
        var iterator = batches.makeAsyncIterator()
        _ = await iterator.next(isolation: #isolation)
        let reader = try #require(try await Self.eventSocket(in: network))
        let lossy = try await DeafSocket.open(in: network)
        DeafSocket.ask(lossy)
        // No check may be owed to earlier events: it would find the loss before the lone datagram is read.
        try await network.near.ip("rule add priority 1000 to 203.0.113.0/24 prohibit")
        while try !#require(await iterator.next(isolation: #isolation)).events.contains(.rule(isRemoval: false)) {}
        kernel.wake()
        _ = await iterator.next(isolation: #isolation)
        // The old socket still wakes the reader, which reads the new one.
        let old = dup(reader)
        defer { close(old) }
        #expect(dup2(lossy, reader) == reader)
        close(lossy)
        try await network.near.ip("rule del priority 1000")
        var (last, previous): ([NetworkEvent], [NetworkEvent]) = ([], [])
        while !last.contains(.overrun), let batch = await iterator.next(isolation: #isolation) {
            (last, previous) = (batch.events, last)
        }
        #expect(last == [.overrun])
        #expect(previous.count == 1, "the lone datagram, delivered before the loss was known")
        running.cancel()
        _ = await running.result
    }

    /// The drop check of a lone datagram comes 10 ms after it.
    @Test func dropCheckIsNoBatch() async throws {
        let network = try await CabledNetwork()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let pause = Duration.milliseconds(100)
        let (batches, running) = kernel.deliveries(pause: pause)
        var iterator = batches.makeAsyncIterator()
        // From here on the socket is open, and no change is missed.
        _ = await iterator.next(isolation: #isolation)
        var early = 0
        for number in 1...10 {
            try await network.near.ip("rule add priority \(1000 + number) to 203.0.113.0/24 prohibit")
            var last = try #require(await iterator.next(isolation: #isolation))
            while last.events.isEmpty { last = try #require(await iterator.next(isolation: #isolation)) }
            let next = try #require(await iterator.next(isolation: #isolation))
            if next.events.isEmpty, last.now.duration(to: next.now) < pause / 2 { early += 1 }
        }
        // A step of the clock causes batches, too.
        #expect(early < 5, "\(early) of 10 pauses ended early")
        running.cancel()
        _ = await running.result
    }

    @Test func threeFailedDumpsReplaceSocket() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        // Without the path, new sockets fail.
        let path = FileManager.default.temporaryDirectory.appendingPathComponent(network.near.name).path
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: network.near.path)
        defer { try? FileManager.default.removeItem(atPath: path) }
        let kernel = KernelNetwork(networkNamespace: path)
        let (batches, running) = kernel.deliveries()
        var iterator = batches.makeAsyncIterator()
        func next() async throws -> NetworkEventBatch { try #require(await iterator.next(isolation: #isolation)) }
        // A step of the clock causes batches, too.
        func nextLoss() async throws -> NetworkEventBatch {
            kernel.wake()
            while true {
                let batch = try await next()
                if batch.events.contains(.overrun) { return batch }
            }
        }
        #expect(try await next().reopens == 0)

        try FileManager.default.removeItem(atPath: path)
        for _ in 0..<2 { #expect(throws: ReachabilityError.self) { _ = try kernel.interfaces() } }
        kernel.wake()
        let early = try await next()
        #expect(early.reopens == 0 && !early.events.contains(.overrun))
        #expect(throws: ReachabilityError.self) { _ = try kernel.interfaces() }
        // Opening a new socket fails now: the old one stays.
        #expect(try await nextLoss().reopens == 0)
        for _ in 0..<3 { #expect(throws: ReachabilityError.self) { _ = try kernel.interfaces() } }
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: network.near.path)
        let loss = try await nextLoss()
        #expect(loss.reopens == 1 && loss.receiveBuffer != nil)

        #expect(try kernel.interfaces().contains { $0.name == "cable0" })
        try await network.near.ip("route del default")
        while true {
            let isHeard = try await next().events.contains { if case .route = $0.payload { true } else { false } }
            if isHeard { break }
        }
        running.cancel()
        _ = await running.result
    }

    /// Returns the descriptor of this process's event socket in a machine.
    private static func eventSocket(in network: CabledNetwork) async throws -> Int32? {
        let table = try await network.near.run("cat", "/proc/net/netlink").split(separator: "\n").dropFirst()
        let inodes = table.compactMap { line -> Substring? in
            let fields = line.split(separator: " ")
            guard fields.count > 9, fields[1] == "0", fields[2] != "0", UInt32(fields[3], radix: 16) != 0 else { return nil }
            return fields[9]
        }
        return try openFiles().first { file in inodes.contains { file.value == "socket:[\($0)]" } }?.key
    }
}

/// A netlink socket that receives nothing after a flood.
private enum DeafSocket {
    static func open(in network: CabledNetwork) async throws -> Int32 {
        let (descriptor, error) = await withCheckedContinuation { continuation in
            detachThread {
                do {
                    try enterNetworkNamespace(network.near.path)
                    continuation.resume(returning: (socket(16, Int32(SOCK_RAW.rawValue | SOCK_NONBLOCK.rawValue), 0), errno))
                } catch {
                    continuation.resume(returning: (-1, (error as? ReachabilityError)?.errno ?? -1))
                }
            }
        }
        guard descriptor >= 0 else { throw Child.Failure(description: "no socket: \(String(cString: strerror(error)))") }
        // sockaddr_nl; the kernel sends nothing to a socket without a port.
        let address: [UInt32] = [16, 0, 0]
        _ = address.withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { bind(descriptor, $0.baseAddress, socklen_t(bytes.count)) }
        }
        var (group, size): (Int32, Int32) = (1, 1)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, 4)
        // SOL_NETLINK, NETLINK_ADD_MEMBERSHIP and NETLINK_DROP_MEMBERSHIP; RTNLGRP_LINK.
        setsockopt(descriptor, 270, 1, &group, 4)
        try await network.near.ip((0..<20).map { "link set cable1 mtu \(1400 + $0)" }.joined(separator: "\n"))
        setsockopt(descriptor, 270, 2, &group, 4)
        var buffer = [UInt8](repeating: 0, count: 65536)
        while recv(descriptor, &buffer, buffer.count, 0) >= 0 || errno == ENOBUFS {}
        return descriptor
    }

    /// Makes the kernel queue one datagram: the answer to RTM_GETLINK for the loopback device.
    static func ask(_ descriptor: Int32) {
        // struct nlmsghdr: length, type and flags (NLM_F_REQUEST), sequence, port.
        // struct ifinfomsg: family and type, index, flags, mask.
        let request: [UInt32] = [32, 18 | 1 << 16, 1, 0, 0, 1, 0, 0]
        _ = request.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, 0) }
    }
}
