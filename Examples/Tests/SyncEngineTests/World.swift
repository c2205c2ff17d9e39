import Reachability
import ReachabilityTesting
import ReachableRetry
import SyncEngine

/// A machine with one cable, a server, and an engine between them, in virtual time.
///
/// Nothing here is real but the code under test: a test waits an hour in a millisecond, and needs neither network nor privileges.
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

    /// Makes a world that is online, and in which somebody is logged in.
    init() async throws {
        network = SimulatedNetwork.online(clock: clock)
        monitor = ReachabilityMonitor(network)
        bus = RetryBus(monitor, clock: clock, generator: SeededGenerator(seed: 1))
        server = FakeServer(clock)
        unmetered = monitor.unmetered()
        // Without chance, so that a test can say when exactly the next attempt is due.
        let policy = RetryPolicy.photos.backoff(.exponential(initial: .seconds(1), maximum: .seconds(60)))
        engine = SyncEngine(server: server, login: login, unmetered: unmetered, bus: bus, policy: policy)
        running = Task { [monitor] in try await monitor.run() }
        try await network.untilRunning()
        await login.use("sesame")
    }

    deinit { running.cancel() }
}
