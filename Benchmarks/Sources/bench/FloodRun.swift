import CBench
import Glibc

/// One listener under one flood, in namespaces of their own.
struct FloodRun {
    private let listener: FloodListener
    private let routes: UInt32
    private let network: Network

    init(_ listener: FloodListener, _ routes: UInt32) throws {
        (self.listener, self.routes) = (listener, routes)
        network = try Network()
    }

    func measure() throws -> FloodResult {
        var route = network.defaultRoute
        try change(&route, adds: true)
        let peer = try Peer(listener.arguments, hasOutput: listener.hasVerdict)
        // Until it has started, and the link's own messages are over.
        usleep(2_500_000)
        guard !listener.hasVerdict || Self.isSatisfied(peer.readOutput()) == true else {
            throw BenchError("\(listener.name) does not see the default route")
        }
        let (time, memory) = (peer.processorTime, peer.memory.now)
        try flood(adds: true, 0, routes / 2)
        try change(&route, adds: false)
        try flood(adds: true, routes / 2, routes - routes / 2)
        try flood(adds: false, 0, routes)
        // Until it has read what is left, and the last re-evaluation is over.
        let settled = try settledTime(peer)
        var isRight = listener.hasVerdict ? Self.isSatisfied(peer.readOutput()) == false : nil
        let drops = Self.drops
        if isRight == true {
            try change(&route, adds: true)
            usleep(200_000)
            isRight = Self.isSatisfied(peer.readOutput()) == true
        }
        return FloodResult(
            processorTime: (settled - time) * 1e6 / Double(max(1, 2 * Int(routes) - drops)), drops: drops, memoryBefore: memory,
            memoryAfter: peer.memory.now, memoryPeak: peer.memory.peak, isRight: isRight)
    }

    private func change(_ route: inout bench_route, adds: Bool) throws {
        try BenchError.check(bench_change_route(network.socket, adds, &route, nil), "changing the default route")
    }

    private func flood(adds: Bool, _ first: UInt32, _ count: UInt32) throws {
        var through = network.defaultRoute
        try BenchError.check(bench_flood(network.socket, adds, &through, first, count), "flooding")
    }

    /// The processor time of a peer once it has stopped using any.
    private func settledTime(_ peer: Peer) throws -> Double {
        var last = peer.processorTime
        for _ in 0..<100 {
            usleep(300_000)
            let now = peer.processorTime
            if now - last < 0.001 { return now }
            last = now
        }
        throw BenchError("\(listener.name) does not come to rest")
    }

    /// `true` if the last line of `watch` says satisfied; `nil` without a line.
    private static func isSatisfied(_ lines: String) -> Bool? {
        lines.split(separator: "\n").last.map { $0.contains("\"path\":{\"status\":\"satisfied\"") }
    }

    /// The number of datagrams that the kernel has dropped in this namespace.
    ///
    /// The columns of /proc/net/netlink: sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode.
    private static var drops: Int {
        let lines = (try? readFile("/proc/thread-self/net/netlink"))?.split(separator: "\n").dropFirst() ?? []
        return lines.reduce(0) { sum, line in
            let words = line.split(separator: " ")
            return sum + (words.count > 8 ? Int(words[8]) ?? 0 : 0)
        }
    }
}

/// Measures the time to the first verdict, without routes and with many.
struct FirstVerdict {
    private let routes: UInt32

    init(_ routes: UInt32) { self.routes = routes }

    /// In milliseconds.
    func measure() throws -> (none: Double, full: Double) {
        let network = try Network()
        var through = network.defaultRoute
        try BenchError.check(bench_change_route(network.socket, true, &through, nil), "adding a route")
        usleep(2_500_000)
        let none = try median()
        try BenchError.check(bench_flood(network.socket, true, &through, 0, routes), "flooding")
        defer { bench_flood(network.socket, false, &through, 0, routes) }
        return (none, try median())
    }

    private func median() throws -> Double {
        let peer = try Peer([Programs.built("listener"), "first-verdict"], hasOutput: true)
        guard peer.wait() == 0, let time = Double(peer.readOutput().split(separator: "\n").first ?? "") else {
            throw BenchError("the first verdict could not be measured")
        }
        return time / 1e6
    }
}

/// The results of a flood, in Markdown.
struct FloodTable {
    let text: String

    init(_ listeners: [FloodListener], _ results: [String: [FloodResult]]) {
        var lines = [
            row([
                "listener", "CPU s per 1 M notifications", "× `ip monitor`", "goal", "", "dropped", "RSS MB before, after, peak",
                "verdict right",
            ]),
            row([String](repeating: "---", count: 8)),
        ]
        let base = (results[FloodListener.ipMonitor.name] ?? []).map(\.processorTime)
        for listener in listeners {
            let own = results[listener.name] ?? []
            let times = own.map(\.processorTime)
            let ratio = median(zip(times, base).map { $0 / $1 })
            let drops = own.map { Double($0.drops) }
            let holds = (listener.limit.map { ratio <= $0 } ?? true) && (listener.mayLose || drops.allSatisfy { $0 == 0 })
            let verdicts = own.compactMap(\.isRight)
            let limit = listener.limit.map { "≤ \(decimal($0))\(listener.mayLose ? "" : ", none lost")" }
            let cells = [
                listener.name, decimal(median(times), 3), decimal(ratio, 3), limit ?? "",
                limit == nil ? "" : holds ? "holds" : "MISSED",
                decimal(median(drops), 0),
                [own.map(\.memoryBefore), own.map(\.memoryAfter), own.map(\.memoryPeak)].map { decimal(median($0), 1) }
                    .joined(separator: ", "),
                verdicts.isEmpty ? "tells none" : "\(verdicts.count { $0 }) of \(verdicts.count)",
            ]
            lines.append(row(cells))
        }
        text = lines.joined(separator: "\n")
    }
}
