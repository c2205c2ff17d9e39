import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableJobs
import ReachableRetry
import TestSupport
import Testing

/// A machine whose network and time are simulated, with durable jobs, and a real server with real files.
final class DurableTrial: Sendable {
    let world = TestWorld()
    let server: MisbehavingServer
    let folder: TemporaryFolder
    let session = URLSession(configuration: .ephemeral)

    private init(_ server: MisbehavingServer) throws { (self.server, folder) = (server, try TemporaryFolder()) }

    deinit { session.finishTasksAndInvalidate() }

    /// Runs a body in the world, and stops the server afterwards.
    static func run(
        _ answer: @escaping @Sendable (Request) -> Reply, _ body: @Sendable (DurableTrial) async throws -> Void
    ) async throws {
        try await run(progress: { _, _ in }, answer: answer, body: body)
    }

    /// Runs a body with a server that reports the arrival of each request's body.
    static func run(
        progress: @escaping @Sendable (Request, Int) -> Void, answer: @escaping @Sendable (Request) -> Reply,
        body: @Sendable (DurableTrial) async throws -> Void
    ) async throws {
        let trial = try DurableTrial(try MisbehavingServer(keepsBodies: true, progress: progress, answer: answer))
        defer { trial.server.stop() }
        try await trial.world.run { _ in try await body(trial) }
    }

    func url(_ path: String = "/") throws -> URL { try #require(URL(string: "http://127.0.0.1:\(server.port)\(path)")) }

    var destination: URL { folder.url.appendingPathComponent("file") }

    /// A policy without delays.
    static let policy = RetryPolicy(.immediate)

    var options: DurableHTTPOptions {
        var options = DurableHTTPOptions()
        options.session = session
        return options
    }

    /// Starts a process that works on the queue.
    func launch(_ register: (JobQueue) -> Void) -> DurableLife { DurableLife(world, register) }

    /// Starts a process with all kinds, and without handlers.
    func launch(
        policy: RetryPolicy = policy, _ change: (inout DurableHTTPOptions) -> Void = { _ in }
    ) -> DurableLife {
        var options = options
        change(&options)
        return launch { queue in
            queue.registerRequests(policy: policy, options: options)
            queue.registerUploads(policy: policy, options: options)
            queue.registerDownloads(policy: policy, options: options)
        }
    }

    /// Runs one job to its end in one process.
    func end(
        of job: some JobParameters, policy: RetryPolicy = policy, _ change: (inout DurableHTTPOptions) -> Void = { _ in }
    ) async throws -> DurableJob {
        let life = launch(policy: policy, change)
        let end = try await life.end(of: try await life.queue.push(job).id)
        await life.stop()
        return end
    }
}

/// A process of a trial.
struct DurableLife: Sendable {
    let process: TestProcess
    let queue: JobQueue
    private let running: Task<Void, Never>
    private let log = Rendezvous<[JobQueueEvent]>([])

    fileprivate init(_ world: TestWorld, _ register: (JobQueue) -> Void) {
        let process = world.launch()
        let queue = JobQueue(process.store, bus: process.bus)
        register(queue)
        let events = queue.events
        process.start { [log] in for await event in events { log.change { $0.append(event) } } }
        running = process.start { await queue.run() }
        (self.process, self.queue) = (process, queue)
    }

    /// Waits until a job has ended, and returns it.
    func end(of id: DurableJobID) async throws -> DurableJob {
        try await log.wait { events in
            events.contains { event in
                guard event.job == id else { return false }
                return switch event.kind {
                case .succeeded, .failed, .cancelled: true
                default: false
                }
            }
        }
        return try #require(await queue.jobs().first { $0.id == id })
    }

    /// Waits until an attempt of this process has failed and another one follows; returns its error.
    @discardableResult
    func failure() async throws -> String {
        try await log.wait { $0.contains { if case .willRetry = $0.kind { true } else { false } } }
        for event in log.value { if case .willRetry(let text) = event.kind { return text ?? "" } }
        return ""
    }

    /// Kills the process, and waits until its attempts have let go of their connections and files.
    func kill() async {
        await process.kill()
        await running.value
    }

    /// Ends the process in good order.
    func stop() async {
        running.cancel()
        await running.value
    }

    /// Waits until the process has ended, such as by a reboot.
    func ended() async { await running.value }
}
