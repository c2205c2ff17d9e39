import CBench

/// Something whose latency is measured.
struct Contender {
    var name: String
    var arguments: [String]
    /// `true` if it writes lines to a pipe; otherwise it stamps for itself.
    var writesLines = false
    /// The peer for comparison, and the ratio that is allowed.
    var goals: [Goal] = []

    struct Goal {
        var base: String
        var limit: Double
    }
}

extension Contender {
    static let epoll = "C: epoll, recv"
    private static let verdict = "C: epoll, drain, look-ups"
    private static let observer = "a condition's observer"
    private static let ipMonitor = "`ip monitor route`, line"

    /// All of them.
    static var all: [Contender] {
        // Those that are compared are neighbours, so that little time lies between them.
        var all = [
            ours("callback, no verdict", "callback", [.init(base: epoll, limit: 1.10)]),
            Contender(name: epoll, arguments: [Programs.built("peer-epoll"), "events"]),
            Contender(name: verdict, arguments: [Programs.built("peer-epoll"), "verdict"]),
            ours(observer, "condition", [.init(base: verdict, limit: 1.15), .init(base: epoll, limit: 1.60)]),
            ours("task on the reader's executor: `waitUntilSatisfied()`", "executor", [.init(base: observer, limit: 1.10)]),
            ours("`AsyncStream`, default pool", "stream", [.init(base: observer, limit: 1.35)]),
            Contender(name: "C: epoll, drain, look-ups, the table's entry", arguments: [Programs.built("peer-epoll"), "details"]),
            ours("everybody told, `deliver` returned", "delivered", []),
            ours("task on the reader's executor: `updates`", "executor-updates", []),
            ours("task on the reader's executor: transitions", "executor-stream", []),
            Contender(name: ipMonitor, arguments: ["ip", "monitor", "route"], writesLines: true),
            Contender(
                name: "`watch --raw --format json`, line",
                arguments: [Programs.built("reachability-watch"), "watch", "--raw", "--format", "json"], writesLines: true,
                goals: [.init(base: ipMonitor, limit: 1.10)]),
        ]
        if let glib = Programs.glib { all.append(Contender(name: "GLib: GNetworkMonitor", arguments: [glib])) }
        return all
    }

    private static func ours(_ name: String, _ station: String, _ goals: [Goal]) -> Contender {
        Contender(name: name, arguments: [Programs.built("listener"), station], goals: goals)
    }
}

/// A contender that runs, in a network namespace of its own: only the one that is measured hears anything.
final class Listener {
    let contender: Contender
    private let network: Network
    private let peer: Peer

    init(_ contender: Contender) throws {
        self.contender = contender
        network = try Network()
        peer = try Peer(
            contender.arguments, processor: Machine.listener, hasStamps: !contender.writesLines,
            hasOutput: contender.writesLines)
    }

    /// Waits until it hears everything: after the link's own messages, carrier and duplicate address detection.
    func settle(_ seed: UInt64) throws {
        for attempt in 0..<500 {
            if try peer.latencies(network, count: 10, seed: seed &+ UInt64(attempt)).allSatisfy({ $0 > 0 }) { return }
        }
        throw BenchError("\(contender.name) does not hear of all changes")
    }

    /// The time until the listener has each of some additions, in nanoseconds; 0 for a missed one.
    func latencies(_ count: Int, _ seed: UInt64) throws -> [Int64] {
        // Until the caches are warm.
        _ = try peer.latencies(network, count: 2, seed: seed)
        return try peer.latencies(network, count: count, seed: seed &+ 1)
    }
}

/// The medians of some contenders in the rounds of a benchmark.
struct LatencyResults {
    /// Microseconds from before send until it was heard: the median of each round, `nil` where nothing was heard.
    private(set) var medians: [String: [Double?]] = [:]
    private(set) var missed: [String: Int] = [:]
    private(set) var sent: [String: Int] = [:]

    mutating func add(_ latencies: [Int64], of contender: Contender) {
        let heard = latencies.filter { $0 > 0 }.map { Double($0) / 1000 }
        medians[contender.name, default: []].append(heard.isEmpty ? nil : median(heard))
        missed[contender.name, default: 0] += latencies.count - heard.count
        sent[contender.name, default: 0] += latencies.count
    }

    /// The ratios of two contenders in the rounds in which both heard something.
    func ratios(_ name: String, to base: String) -> [Double] {
        zip(medians[name] ?? [], medians[base] ?? []).compactMap { own, base in
            if let own, let base { own / base } else { nil }
        }
    }

    /// A table in Markdown.
    ///
    /// Fails if a listener has heard nothing. One that has missed more than a tenth of the messages misses its goals, too: what it
    /// has heard says little.
    func table(_ contenders: [Contender]) throws -> String {
        var lines = [
            "| from before send to | p50 µs | × C epoll | missed | goal | ratio | |",
            "|---|---|---|---|---|---|---|",
        ]
        for contender in contenders {
            let (missed, sent) = (missed[contender.name] ?? 0, sent[contender.name] ?? 0)
            guard missed < sent else { throw BenchError("\(contender.name) missed all of \(sent) changes") }
            let times = (medians[contender.name] ?? []).compactMap(\.self)
            let cells = [
                contender.name, decimal(median(times), 1), summary(ratios(contender.name, to: Contender.epoll)), "\(missed)",
            ]
            if contender.goals.isEmpty { lines.append(row(cells + ["", "", ""])) }
            for (index, goal) in contender.goals.enumerated() {
                let ratios = ratios(contender.name, to: goal.base)
                let verdict = missed * 10 <= sent && median(ratios) <= goal.limit ? "holds" : "MISSED"
                let first = index == 0 ? cells : cells.map { _ in "" }
                lines.append(row(first + ["≤ \(decimal(goal.limit)) × \(goal.base)", summary(ratios), verdict]))
            }
        }
        return lines.joined(separator: "\n")
    }
}

/// A row of a table in Markdown.
func row(_ cells: [String]) -> String { "| " + cells.joined(separator: " | ") + " |" }

/// The median of some numbers with their quartiles, as reports write it.
func summary(_ numbers: [Double]) -> String {
    "\(decimal(median(numbers))) [\(decimal(quantile(numbers, 0.25)))..\(decimal(quantile(numbers, 0.75)))]"
}

/// The middle of some numbers; 0 of none.
func median(_ numbers: [Double]) -> Double {
    guard !numbers.isEmpty else { return 0 }
    let sorted = numbers.sorted()
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}

/// The number that a share of the others are not greater than; 0 of none.
func quantile(_ numbers: [Double], _ share: Double) -> Double {
    numbers.isEmpty ? 0 : numbers.sorted()[Int((Double(numbers.count - 1) * share).rounded())]
}
