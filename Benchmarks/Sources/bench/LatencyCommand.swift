import ArgumentParser
import CBench
import Glibc

/// The subcommand `latency`.
struct LatencyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency", abstract: "From the kernel to a listener, in microseconds and beside its peers.")

    @Option(help: "How many rounds; each measures everybody.")
    var rounds = 400

    @Option(help: "How many routes are added in each measurement, after two that only warm the caches.")
    var toggles = 8

    @Option(help: "The seed of the distances in time and of the order in a round.")
    var seed: UInt64 = 1

    @Option(help: "Only those whose name contains this, and C epoll.")
    var only: String?

    @Flag(help: "Take precedence over others that work on this machine (SCHED_FIFO).")
    var precedence = false

    func validate() throws {
        if rounds < 1 || !(1...10_000).contains(toggles) {
            throw ValidationError("at least one round and one toggle, at most 10000")
        }
    }

    func run() throws {
        let contenders = Contender.all.filter { contender in
            only.map { contender.name.contains($0) || contender.name == Contender.epoll } ?? true
        }
        print("latency: \(Machine.description)")
        var results = LatencyResults()
        try withSpinners {
            if precedence { try BenchError.check(bench_take_precedence(), "sched_setscheduler") }
            let listeners = try contenders.map(Listener.init)
            for listener in listeners { try listener.settle(seed) }
            for round in 0..<rounds {
                // Each begins in turn, but those that are compared stay neighbours.
                for index in listeners.indices {
                    let listener = listeners[(index + round) % listeners.count]
                    results.add(try listener.latencies(toggles, seed &+ UInt64(round)), of: listener.contender)
                }
                if (round + 1).isMultiple(of: 100) { print("latency: round \(round + 1) of \(rounds), load \(Machine.load)") }
            }
        }
        print(
            """
            latency: \(rounds) rounds of \(toggles) additions, seed \(seed)\(precedence ? ", with precedence" : ""); \
            medians of the rounds' ratios [quartiles]

            """)
        print(try results.table(contenders))
        print("")
        if Programs.glib == nil { print(Programs.glibIsMissing) }
        print(Programs.othersAreMissing)
    }
}
