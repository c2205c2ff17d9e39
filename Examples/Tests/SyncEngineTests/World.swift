import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import SyncEngine

/// A process of the program under test, in a test's world.
///
/// Only the code under test is real: a test waits an hour in a millisecond, and needs neither a network nor privileges.
struct Program {
    let process: TestProcess
    let queue: JobQueue
    let engine: SyncEngine
    let login = Login()
    let unmetered: Condition

    /// Starts a process with a login.
    init(_ world: TestWorld, _ server: FakeServer) async {
        process = world.launch()
        queue = process.makeQueue()
        unmetered = world.monitor.unmetered()
        // Without jitter, so that a test can name the exact time of the next attempt.
        let policy = RetryPolicy.photos.backoff(.exponential(initial: .seconds(1), maximum: .seconds(60)))
        engine = SyncEngine(queue, server: server, login: login, unmetered: unmetered, policy: policy)
        process.start { [queue] in await queue.run() }
        await login.use("sesame")
        await world.settle()
    }

    /// Accepts photos.
    func add(_ photos: Photo...) async throws {
        for photo in photos { try await queue.push(engine.job(for: photo), unique: .replace(photo.name)) }
    }

    /// Returns the job of a photo.
    func job(_ name: String) async throws -> DurableJob? {
        try await queue.jobs(matching: JobFilter(serialKey: name)).last
    }
}

/// Runs a test in a world with a program and a server.
func inWorld(_ body: @Sendable (TestWorld, FakeServer, Program) async throws -> Void) async throws {
    var configuration = RetryBus.Configuration()
    configuration.releasePolicy = .exact
    try await TestWorld(busConfiguration: configuration).run { world in
        let server = FakeServer(world.clock)
        try await body(world, server, Program(world, server))
    }
}
