import Foundation
import Reachability
import Testing

/// The cost of a change between the kernel and a listener, counted: times vary on a shared machine.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct HotPathTests {
    @Test func routeChangeTakesTwoLookupsPerAddress() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.addIPv6()
        let source = KernelTap(KernelNetwork(networkNamespace: network.near.path))
        var configuration = ReachabilityMonitor.Configuration()
        (configuration.auditInterval, configuration.auditIntervalWhileUnsatisfied) = (nil, nil)
        try await network.watching(on: source, configuration: configuration) { watcher in
            var (losses, gains, dumps): ([Int], [Int], [Int]) = ([], [], [])
            _ = source.takeRequests()
            for _ in 0..<5 {
                try await watcher.expect(kinds: .familyLost) { try await network.near.ip("route del default metric 100") }
                try await source.untilSettled()
                var requests = source.takeRequests()
                losses.append(requests.lookups)
                dumps.append(requests.dumps)
                try await watcher.expect(kinds: .familyGained) {
                    try await network.near.ip("route add default via 192.0.2.1 dev cable0 metric 100")
                }
                try await source.untilSettled()
                requests = source.takeRequests()
                gains.append(requests.lookups)
                dumps.append(requests.dumps)
            }
            // In most rounds: events of links and addresses cause more lookups, and a late reader makes fewer.
            // The kernel announces the removal of an IPv4 route before it removes it. So the first address of both groups is looked
            // up three times, also with the expected source, and then the two others of each group. When the route is back, each
            // first address is looked up without and with that source, and its table entry is read.
            #expect(losses.contains(3 * (2 + 2 + 2 * 2)), "\(losses)")
            #expect(gains.contains(2 + 2 + 1), "\(gains)")
            #expect(dumps.allSatisfy { $0 == 0 })
        }
    }

    @Test func preferringListenerRunsOnReaderThread() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let monitor = ReachabilityMonitor(kernel)
        let running = Task { try await monitor.run() }
        let (received, continuation) = AsyncStream.makeStream(of: (Transition, String).self)
        let listener = Task(executorPreference: kernel.executor) {
            for await transition in monitor.transitions(to: .internet, raw: true) {
                continuation.yield((transition, threadName()))
            }
            continuation.finish()
        }
        var iterator = received.makeAsyncIterator()
        let baseline = try #require(await iterator.next(isolation: #isolation))
        #expect(baseline.0.isBaseline)
        for round in 1...5 {
            try await network.near.ip("route del default")
            let loss = try #require(await iterator.next(isolation: #isolation))
            #expect(loss.0.kinds == .offline && loss.0.sequence == UInt64(2 * round - 1) && loss.1 == "reachability")
            try await network.near.ip("route add default via 192.0.2.1 dev cable0")
            let gain = try #require(await iterator.next(isolation: #isolation))
            #expect(gain.0.kinds == .online && gain.0.sequence == UInt64(2 * round) && gain.1 == "reachability")
        }
        // The listener outlives the reader: it finishes on the default pool.
        running.cancel()
        try await running.value
        let end = try #require(await iterator.next(isolation: #isolation))
        #expect(end.0.current.status == .unknown)
        await listener.value
    }

    @Test func conditionWaitersResumeBeforeStreams() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let monitor = ReachabilityMonitor(kernel)
        let condition = monitor.condition(for: .internet)
        let running = Task { try await monitor.run() }
        let (received, continuation) = AsyncStream.makeStream(of: (Bool, Int?, String).self)
        let waiting = Task(executorPreference: kernel.executor) {
            for await state in condition.updates {
                continuation.yield((state.isSatisfied, monitor.path.ipv4.prefixLength, threadName()))
            }
            continuation.finish()
        }
        var iterator = received.makeAsyncIterator()
        // The first state may be the initial one.
        while let news = await iterator.next(isolation: #isolation), !news.0 {}
        for _ in 1...5 {
            try await network.near.ip("route del default")
            #expect(try #require(await iterator.next(isolation: #isolation)).0 == false)
            try await network.near.ip("route add default via 192.0.2.1 dev cable0")
            let gain = try #require(await iterator.next(isolation: #isolation))
            // The transition in the stream was not read yet.
            #expect(gain.0 && gain.1 == nil && gain.2 == "reachability", "\(gain)")
        }
        running.cancel()
        try await running.value
        await waiting.value
    }
}

/// The kernel's name of the calling thread (proc(5)).
private func threadName() -> String {
    let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
    return name.map { String($0.prefix { $0 != "\n" }) } ?? ""
}
