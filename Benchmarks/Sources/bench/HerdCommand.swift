import ArgumentParser
import CBench
import Glibc
import ReachableRetry

/// The subcommand `herd`.
struct HerdCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "herd",
        abstract: "Has thousands of jobs wait for a network that comes back, and looks at what their server gets.")

    @Flag(help: "On a real cable between two network namespaces instead of in virtual time; needs root.")
    var real = false

    @Option(help: "The seed of the virtual runs.")
    var seed: UInt64 = 1

    @Option(help: "Only the virtual runs whose name contains this.")
    var only: String?

    @Option(help: "How many machines of a site come back together; 0 leaves them out.")
    var site = 1000

    @Option(help: "With how many seeds the site runs.")
    var seeds = 1

    @Option(help: "How many requests the virtual server takes in.")
    var room = 400

    @Option(help: "How many jobs wait on the real cable.")
    var jobs = 10_000

    @Option(help: "How many requests a second the real server answers.")
    var rate = 100

    @Option(help: "After how many times the ideal a real run is cut.")
    var limit = 3.0

    func validate() throws {
        guard (0...5000).contains(site), (1...100).contains(seeds) else {
            throw ValidationError("site 0 to 5000, seeds 1 to 100")
        }
        guard (1...1_000_000).contains(room), (1...20_000).contains(jobs), (1...1000).contains(rate), limit >= 1 else {
            throw ValidationError("room 1 to 1000000, jobs 1 to 20000, rate 1 to 1000, limit at least 1")
        }
    }

    func run() throws {
        print("herd: \(Machine.description)")
        if real { try runReal() } else { try runVirtual() }
    }

    // MARK: - Virtual time

    private struct Crowd {
        var name: String
        var hosts = 1
        var jobsPerHost: Int
        /// All hosts together may not exceed the server's hundred requests per second.
        var pace: Double { 100 / Double(hosts) }
    }

    private static let crowds = [
        Crowd(name: "1 host × 1000 jobs", jobsPerHost: 1000),
        Crowd(name: "1 host × 5000 jobs", jobsPerHost: 5000),
        Crowd(name: "1000 hosts × 5 jobs", hosts: 1000, jobsPerHost: 5),
    ]

    private func runVirtual() throws {
        let start = bench_now()
        print(
            "herd: virtual time, seed \(seed); a server of 100 requests/s with room for \(room), clients that wait for 2 s; "
                + "cut after 1000 s")
        var holds = true
        for crowd in Self.crowds {
            for lag in [0, 3] {
                let name = "\(crowd.name), \(lag == 0 ? "no lag" : "a false up of \(lag) s")"
                if let only, !name.contains(only) { continue }
                holds = try runVirtual(name, crowd, lag: .seconds(lag)) && holds
            }
        }
        if site > 0, only == nil {
            print("\n\(site) machines of a site × 5 jobs, whose buses know how many there are or do not:\n")
            fflush(nil)
            let peer = try Peer([Programs.built("herd-site"), "\(site)", "\(seeds)"])
            holds = peer.wait() == 0 && holds
        }
        print("\nherd: all of that took \(decimal(Double(bench_now() - start) / 1e9, 1)) s")
        // In virtual time no machine is too slow.
        if !holds { throw ExitCode(1) }
    }

    /// Returns whether the goals hold, if there are any.
    private func runVirtual(_ name: String, _ crowd: Crowd, lag: Duration) throws -> Bool {
        let setup = HerdSimulation.Setup(
            hosts: crowd.hosts, jobsPerHost: crowd.jobsPerHost, lag: lag, room: room, seed: seed)
        var table = HerdTable()
        func measure(
            _ name: String, _ release: ReleasePolicy, _ priority: JobPriority = .normal, isStored: Bool = false
        ) throws -> HerdFigures {
            let figures = try HerdSimulation(setup, release, priority: priority, isStored: isStored).run()
            table.add(name, figures, cut: "1000 s")
            return figures
        }
        let gated = try measure("`.gated`", .gated)
        let stored = crowd.hosts == 1 ? try measure("`.gated`, stored jobs", .gated, isStored: true) : gated
        _ = try measure("`.immediate`", .immediate)
        _ = try measure("`.paced(perSecond: \(decimal(crowd.pace, 1)))`", .paced(perSecond: crowd.pace))
        _ = try measure("`.spread(over: .seconds(60))`, bulk", .spread(over: .seconds(60)), .bulk)
        print("\n\(name), ideal \(decimal(Double(setup.jobs) / Double(setup.rate) + lag / .seconds(1), 0)) s:\n")
        print(table.text)
        // One machine cannot know of the others: to a fleet the goals do not apply.
        guard crowd.hosts == 1 else { return true }
        let goals = [("`.gated`", gated), ("stored jobs", stored)].map { HerdGoals($0, $1, hasLag: lag > .zero) }
        print("\n" + goals.map(\.text).joined(separator: "\n\n"))
        return goals.allSatisfy(\.hold)
    }

    // MARK: - A real cable

    private func runReal() throws {
        let lag = 3.0
        let ideal = Double(jobs) / Double(rate)
        let network = try HerdNetwork(rate: rate)
        print(
            """
            herd: a real cable, \(jobs) jobs, a server of \(rate) requests/s with a backlog of \(HerdNetwork.backlog), clients \
            that wait for \(HerdClient.timeout / 1_000_000_000) s; `.immediate` with \(HerdNetwork.mostAtOnce) attempts at a time \
            at most, for want of descriptors; cut after \(decimal(limit, 1)) × the ideal
            """)
        for lag in [0, lag] {
            let end = (ideal + lag) * limit
            var table = HerdTable()
            let gated = try HerdCable(network, .gated, jobs: jobs, lag: lag, end: end).run()
            table.add("`.gated`", gated, cut: "\(decimal(end, 0)) s")
            print("herd: the gated run is over, load average \(Machine.load)")
            table.add(
                "`.immediate`", try HerdCable(network, .immediate, jobs: jobs, lag: lag, end: end).run(),
                cut: "\(decimal(end, 0)) s")
            print("\n\(lag == 0 ? "No lag" : "A false up of \(decimal(lag, 0)) s"), ideal \(decimal(ideal + lag, 0)) s:\n")
            print(table.text)
            print("\n" + HerdGoals("`.gated`", gated, hasLag: lag > 0).text + "\n")
        }
    }
}
