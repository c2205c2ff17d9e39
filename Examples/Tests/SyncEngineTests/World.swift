import Reachability
import ReachabilityTesting
import ReachableRetry
import SyncEngine

/// A machine with one cable, a server and an engine, in virtual time.
///
/// Only the code under test is real: a test waits an hour in a millisecond, and needs neither a network nor privileges.
final class World: Sendable {
    let clock = ManualClock()
    let network: SimulatedNetwork
    let monitor: ReachabilityMonitor
    let bus: RetryBus
    let server: FakeServer
    let login = Login()
    let unmetered: Condition
    let engine: SyncEngine
    private let running: Task<Void, any Error>

    /// Makes an online world with a login.
    init() async throws {
        network = SimulatedNetwork.online(clock: clock)
        monitor = ReachabilityMonitor(network)
        bus = RetryBus(monitor, clock: clock, generator: SeededGenerator(seed: 1))
        server = FakeServer(clock)
        unmetered = monitor.unmetered()
        // Without jitter, so that a test can name the exact time of the next attempt.
        let policy = RetryPolicy.photos.backoff(.exponential(initial: .seconds(1), maximum: .seconds(60)))
        engine = SyncEngine(server: server, login: login, unmetered: unmetered, bus: bus, policy: policy)
        running = Task { [monitor] in try await monitor.run() }
        try await network.untilRunning()
        await login.use("sesame")
    }

    deinit { running.cancel() }
}
