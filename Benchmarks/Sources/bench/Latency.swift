import CBench

/// Something whose latency is measured.
struct Contender {
    var name: String
    var arguments: [String]
    /// Whether it writes lines to a pipe; otherwise it stamps for itself.
    var writesLines = false
    /// What it is compared with, and the ratio that is allowed.
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

    /// All of them, bases first.
    static var all: [Contender] {
        var all = [
            Contender(name: epoll, arguments: [Programs.built("peer-epoll"), "events"]),
            Contender(name: verdict, arguments: [Programs.built("peer-epoll"), "verdict"]),
            Contender(name: "C: the same, and the table's entry", arguments: [Programs.built("peer-epoll"), "details"]),
            ours("callback, no verdict", "callback", [.init(base: epoll, limit: 1.10)]),
            ours(observer, "condition", [.init(base: verdict, limit: 1.15), .init(base: epoll, limit: 1.60)]),
            ours("everybody told, `deliver` returned", "delivered", []),
            ours("task on the reader's executor: `waitUntilSatisfied()`", "executor", [.init(base: observer, limit: 1.10)]),
            ours("task on the reader's executor: `updates`", "executor-updates", []),
            ours("task on the reader's executor: transitions", "executor-stream", []),
            ours("`AsyncStream`, default pool", "stream", [.init(base: observer, limit: 1.35)]),
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

/// The medians of some contenders in the rounds of a benchmark.
struct LatencyResults {
    /// Microseconds from before send until it was heard, a median for each round.
    private(set) var medians: [String: [Double]] = [:]
    private(set) var missed: [String: Int] = [:]

    mutating func add(_ latencies: [Int64], of contender: Contender) throws {
        let heard = latencies.filter { $0 > 0 }.map { Double($0) / 1000 }
        guard heard.count * 2 > latencies.count else {
            throw BenchError("\(contender.name) heard of \(heard.count) changes in \(latencies.count) only")
        }
        medians[contender.name, default: []].append(median(heard))
        missed[contender.name, default: 0] += latencies.count - heard.count
    }

    /// The ratios of two contenders, one for each round.
    func ratios(_ name: String, to base: String) -> [Double] { zip(medians[name] ?? [], medians[base] ?? []).map { $0 / $1 } }

    /// A table in Markdown.
    func table(_ contenders: [Contender]) -> String {
        var lines = [
            "| from before send to | p50 µs | × C epoll | missed | goal | ratio | |",
            "|---|---|---|---|---|---|---|",
        ]
        for contender in contenders {
            let cells = [
                contender.name, decimal(median(medians[contender.name] ?? []), 1),
                summary(ratios(contender.name, to: Contender.epoll)), "\(missed[contender.name] ?? 0)",
            ]
            if contender.goals.isEmpty { lines.append(row(cells + ["", "", ""])) }
            for (index, goal) in contender.goals.enumerated() {
                let ratios = ratios(contender.name, to: goal.base)
                let verdict = median(ratios) <= goal.limit ? "holds" : "MISSED"
                let first = index == 0 ? cells : cells.map { _ in "" }
                lines.append(row(first + ["≤ \(decimal(goal.limit)) × \(goal.base)", summary(ratios), verdict]))
            }
        }
        return lines.joined(separator: "\n")
    }

    private func summary(_ ratios: [Double]) -> String {
        "\(decimal(median(ratios))) [\(decimal(ratios.min() ?? 0))..\(decimal(ratios.max() ?? 0))]"
    }
}

/// A row of a table in Markdown.
func row(_ cells: [String]) -> String { "| " + cells.joined(separator: " | ") + " |" }

/// The middle of some numbers; 0 of none.
func median(_ numbers: [Double]) -> Double {
    guard !numbers.isEmpty else { return 0 }
    let sorted = numbers.sorted()
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}
