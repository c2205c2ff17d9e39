import ArgumentParser
import CBench
import Glibc

/// The subcommand `flood`.
struct FloodCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flood", abstract: "Adds and removes a million routes under a listener, its default route among them.")

    @Option(help: "How many routes.")
    var routes: UInt32 = 1_000_000

    @Option(help: "How many rounds; each measures everybody.")
    var rounds = 3

    func validate() throws {
        if rounds < 1 || !(1000...16_000_000).contains(routes) {
            throw ValidationError("at least one round, and 1000 to 16000000 routes")
        }
    }

    func run() throws {
        print("flood: \(Machine.description)")
        let listeners = FloodListener.all
        var results: [String: [FloodResult]] = [:]
        var starts: [(none: Double, full: Double)] = []
        for round in 0..<rounds {
            for index in listeners.indices {
                let listener = listeners[(index + round) % listeners.count]
                results[listener.name, default: []].append(try FloodRun(listener, routes).measure())
            }
            starts.append(try FirstVerdict(routes).measure())
            print("flood: round \(round + 1) of \(rounds), load \(Machine.load)")
        }
        print("flood: \(routes) routes added and removed, the default removed in the middle; medians of \(rounds) rounds\n")
        print(FloodTable(listeners, results).text)
        let (none, full) = (median(starts.map(\.none)), median(starts.map(\.full)))
        print(
            """

            Start to first verdict: \(decimal(none)) ms with no routes, \(decimal(full)) ms with \(routes): \
            \(decimal(full - none)) ms more; goal: within 1 ms, \(full - none <= 1 ? "holds" : "MISSED").
            """)
    }
}

/// A listener of a flood.
struct FloodListener {
    var name: String
    var arguments: [String]
    /// `true` if its lines contain the verdict.
    var hasVerdict = false
    /// The share of the processor time of `ip monitor` that is allowed.
    var limit: Double?
    /// `true` if no message may be lost.
    var mayLose = true

    static let ipMonitor = FloodListener(name: "`ip monitor route`", arguments: ["sh", "-c", "exec ip monitor route 2>/dev/null"])

    /// All of them.
    static var all: [FloodListener] {
        let watch = [Programs.built("reachability-watch"), "watch", "--raw", "--format", "json"]
        return [
            ipMonitor,
            FloodListener(name: "`watch`", arguments: watch, hasVerdict: true, limit: 0.02, mayLose: false),
            FloodListener(name: "`watch --no-filter`", arguments: watch + ["--no-filter"], hasVerdict: true, limit: 0.65),
        ]
    }
}

/// The effect of a flood on a listener.
struct FloodResult {
    /// Processor time for a million notifications that were delivered, or kept away by a filter, in seconds.
    var processorTime: Double
    /// The number of notifications that the kernel dropped because the receive buffer was full.
    var drops: Int
    var memoryBefore: Double
    var memoryAfter: Double
    var memoryPeak: Double
    /// `true` if the verdict was right after the flood, and again after the return of the default route; `nil` without a verdict.
    var isRight: Bool?
}
