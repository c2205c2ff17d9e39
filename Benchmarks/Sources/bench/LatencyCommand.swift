import ArgumentParser
import CBench
import Glibc

/// The subcommand `latency`.
struct LatencyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency", abstract: "From the kernel to a listener, in microseconds and beside its peers.")

    @Option(help: "How many rounds; each measures everybody.")
    var rounds = 11

    @Option(help: "How many routes are added in each measurement.")
    var toggles = 250

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
        let network = try Network()
        print("latency: \(Machine.description)")
        var results = LatencyResults()
        try withSpinners {
            if precedence { try BenchError.check(bench_take_precedence(), "sched_setscheduler") }
            // The link's own messages: carrier, duplicate address detection.
            usleep(2_500_000)
            for round in 0..<rounds {
                // Each begins in turn: nobody always follows the same one.
                for index in contenders.indices {
                    let contender = contenders[(index + round) % contenders.count]
                    try results.add(try measure(contender, network, seed &+ UInt64(round)), of: contender)
                }
                print("latency: round \(round + 1) of \(rounds), load \(Machine.load)")
            }
        }
        print(
            """
            latency: \(rounds) rounds of \(toggles) additions, seed \(seed)\(precedence ? ", with precedence" : ""); \
            medians of the rounds' ratios [least..greatest]

            """)
        print(results.table(contenders))
        print("")
        if Programs.glib == nil { print(Programs.glibIsMissing) }
        print(Programs.othersAreMissing)
    }

    private func measure(_ contender: Contender, _ network: Network, _ seed: UInt64) throws -> [Int64] {
        let peer = try Peer(
            contender.arguments, processor: Machine.listener, hasStamps: !contender.writesLines, hasOutput: contender.writesLines)
        // Until it listens, and its caches are warm.
        for attempt in 0..<50 {
            if try peer.latencies(network, count: 20, seed: seed &+ UInt64(attempt)).allSatisfy({ $0 > 0 }) { break }
        }
        return try peer.latencies(network, count: toggles, seed: seed)
    }
}
