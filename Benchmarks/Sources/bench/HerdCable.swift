import CBench
import Glibc
import Reachability
import ReachableRetry

/// A herd on a real cable.
struct HerdCable {
    private let network: HerdNetwork
    private let jobs: Int
    private let ideal: Double
    /// Seconds from the edge until the way leads to the server.
    private let lag: Double
    /// The measured seconds after the edge.
    private let end: Double
    private let monitor = ReachabilityMonitor()
    private let bus: RetryBus
    private let client: HerdClient
    private let log = HerdLog()
    private let policy = HerdFailure.classified(
        RetryPolicy(.exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(60)).jitter(.full))
            .giveUpAfter(maxAttempts: nil))

    init(_ network: HerdNetwork, _ release: ReleasePolicy, jobs: Int, lag: Double, end: Double) throws {
        (self.network, self.jobs, self.lag, self.end) = (network, jobs, lag, end)
        ideal = Double(jobs) / Double(network.rate)
        var configuration = RetryBus.Configuration()
        configuration.releasePolicy = release
        configuration.bufferedEvents = 1_000_000
        configuration.maxConcurrent = release == .immediate ? HerdNetwork.mostAtOnce : nil
        bus = RetryBus(monitor, configuration: configuration)
        client = try HerdClient(HerdNetwork.server, port: HerdNetwork.port)
    }

    func run() throws -> HerdFigures {
        defer { client.close() }
        try network.pull()
        if lag == 0 { try network.lead(true) }
        defer { try? network.lead(false) }
        let monitoring = Task { [monitor] in try? await monitor.run() }
        defer { monitoring.cancel() }
        try wait(5, "the herd is not offline") { monitor.path.status == .unsatisfied }
        let (events, log) = (bus.events, log)
        let listening = Task { for await event in events { log.note(event) } }
        defer { listening.cancel() }
        let tasks = (0..<jobs).map { _ in submit() }
        try wait(30, "the herd does not come to rest") { bus.pending.count == jobs }
        usleep(500_000)
        let (edge, open) = try reconnect()
        let deadline = edge + Int64(end * 1e9)
        while !log.isOver, bench_now() < deadline { usleep(20_000) }
        let entries = log.entries
        for task in tasks { task.cancel() }
        try wait(30, "a job of the herd does not end when cancelled") { log.isOver }
        return HerdFigures(entries, jobs: jobs, edge: edge, open: open, ideal: ideal)
    }

    /// Plugs the cable in, and after the lag the server behind it.
    ///
    /// - Returns: when the kernel had a way, and when it led to the server.
    private func reconnect() throws -> (edge: Int64, open: Int64) {
        try network.plug()
        while !network.isReachable { usleep(100) }
        let edge = bench_now()
        guard lag > 0 else { return (edge, edge) }
        while bench_now() < edge + Int64(lag * 1e9) { usleep(1000) }
        try network.lead(true)
        return (edge, bench_now())
    }

    private func submit() -> Task<Void, Never> {
        log.noteSubmission()
        return Task { [bus, policy, monitor, client, log] in
            do {
                try await bus.retry(policy, options: JobOptions(destination: "server")) { _ in
                    log.noteStart(at: bench_now(), isOffline: monitor.path.status != .satisfied)
                    try await client.ask()
                }
                log.noteEnd(bench_now())
            } catch {
                log.noteEnd(nil)
            }
        }
    }

    private func wait(_ seconds: Int64, _ complaint: String, until holds: () -> Bool) throws {
        let deadline = bench_now() + seconds * 1_000_000_000
        while !holds() {
            guard bench_now() < deadline else { throw BenchError(complaint) }
            usleep(10_000)
        }
    }
}
