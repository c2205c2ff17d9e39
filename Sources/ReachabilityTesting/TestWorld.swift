public import Reachability
public import ReachableRetry

/// A clock, a network, a monitor and a retry bus that belong together, for tests of code that uses them.
///
/// Time and the network change only when the test says so, and ``settle()`` returns when everything that follows has happened. So
/// a test of an hour of outages takes milliseconds, and does the same each time.
///
/// ```swift
/// @Test func uploadSurvivesAnOutage() async throws {
///     try await TestWorld().run { world in
///         try world.network.pull("eth0")
///         let upload = world.start { try await Uploader(world.bus).upload(photo) }
///         await world.clock.advance(by: .seconds(3600))
///         #expect(world.bus.pending.first?.state == .waiting)
///         try world.network.plug("eth0")
///         await world.settle()
///         #expect(world.bus.pending.isEmpty)
///         try await upload.value
///     }
/// }
/// ```
///
/// The world runs its tasks one at a time, on a thread of its own: the body of ``run(_:)`` with its child tasks, those of
/// `start(_:)`, the tasks of submitted jobs and all attempts of the bus. They must not block that thread. Actors without an
/// executor of their own run there, too. Work elsewhere is not waited for: on the main actor, in tasks that the code under test
/// detaches or makes with `Task.init`, in `URLSession`, in validators. Meet that by other means before you call ``settle()``, for
/// example by awaiting its task, or ``ReachableRetry/RetryBus/parked(_:)``.
///
/// All members can be used from any thread.
public final class TestWorld: Sendable {
    /// The network, at first as it was passed to ``init(_:monitorConfiguration:busConfiguration:generator:source:)``.
    public let network: SimulatedNetwork
    /// The monitor of the network; it runs during ``run(_:)``.
    public let monitor: ReachabilityMonitor
    /// A bus on the monitor and the clock.
    public let bus: RetryBus
    /// The clock of the network and the bus: pass it to the code under test.
    public let clock: WorldClock

    private let executor: WorldExecutor
    private let settler: Settler

    /// Makes a world whose monitor does not run yet.
    ///
    /// - Parameters:
    ///   - network: The network that the monitor watches; its clock becomes the world's.
    ///   - monitorConfiguration: The monitor's configuration.
    ///   - busConfiguration: The bus's configuration. `ReleasePolicy.gated(jitter: false)` makes all delays of its gates exact.
    ///   - generator: The source of the bus's jitter; by default the same numbers each time.
    ///   - source: Makes the monitor's source of the network; by default the network itself.
    public init(
        _ network: SimulatedNetwork = .online(), monitorConfiguration: ReachabilityMonitor.Configuration = .init(),
        busConfiguration: RetryBus.Configuration = .init(),
        generator: some RandomNumberGenerator & Sendable = SeededGenerator(seed: 1),
        source: (SimulatedNetwork) -> any NetworkSource = { $0 }
    ) {
        self.network = network
        monitor = ReachabilityMonitor(source(network), configuration: monitorConfiguration)
        executor = WorldExecutor()
        var busConfiguration = busConfiguration
        busConfiguration.executor = executor
        bus = RetryBus(monitor, configuration: busConfiguration, clock: network.clock, generator: generator)
        settler = Settler(executor: executor, network: network, bus: bus)
        clock = WorldClock(manual: network.clock, settler: settler)
    }

    deinit { executor.close() }

    /// Runs the monitor while `body` runs, and returns its value.
    ///
    /// The body and its child tasks are the world's. When it has ended, the monitor ends; jobs that are left go on without it. A
    /// monitor runs once, and so does a world.
    ///
    /// - Returns: The value that the body returned.
    /// - Throws: The body's error, or that of the monitor if it cannot run.
    public func run<Value: Sendable>(_ body: @Sendable (TestWorld) async throws -> Value) async throws -> Value {
        let running = Task(executorPreference: executor) { [monitor] in try await monitor.run() }
        await settle()
        // It has ended at once: its error says why.
        if !network.isRunning { try await running.value }
        let result: Result<Value, any Error>
        do {
            result = .success(try await withTaskExecutorPreference(executor) { try await body(self) })
        } catch {
            result = .failure(error)
        }
        running.cancel()
        _ = await running.result
        return try result.get()
    }

    /// Starts a task that ``settle()`` takes into account.
    ///
    /// - Parameter operation: The work; it begins when the calling task suspends.
    /// - Returns: The task, which can be cancelled and awaited.
    @discardableResult
    public func start<Value: Sendable>(_ operation: @escaping @Sendable () async throws -> Value) -> Task<Value, any Error> {
        Task(executorPreference: executor) { try await operation() }
    }

    /// Starts a task that cannot fail and that ``settle()`` takes into account.
    ///
    /// - Parameter operation: The work; it begins when the calling task suspends.
    /// - Returns: The task, which can be cancelled and awaited.
    @discardableResult
    public func start<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
        Task(executorPreference: executor) { await operation() }
    }

    /// Suspends until nothing more happens unless time passes or an event comes.
    ///
    /// Then the monitor has evaluated all that was delivered, each job waits or runs an attempt, and each of the world's tasks has
    /// ended or waits: for the clock, for the network, or for something outside. If one never stops working, it does not return.
    /// Cancelling the calling task does not end it.
    public func settle() async { await settler.settle() }
}

/// The clock of a ``TestWorld``: time passes when the test says so, one event after the other.
///
/// Sleeps and timers are those of ``manual``, in whole nanoseconds.
public struct WorldClock: Clock, Sendable {
    /// A point in the clock's time.
    public typealias Instant = ManualClock.Instant

    /// The clock itself, whose `advance` does not wait for anything.
    public let manual: ManualClock
    fileprivate let settler: Settler

    /// The time that the clock shows.
    public var now: Instant { manual.now }

    /// One nanosecond.
    public var minimumResolution: Duration { manual.minimumResolution }

    /// Suspends the task until the clock shows `deadline`, like ``ManualClock/sleep(until:tolerance:)``.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try await manual.sleep(until: deadline, tolerance: tolerance)
    }

    /// Lets time pass, stops at each moment at which a timer or a sleep is due, and settles there before it goes on.
    ///
    /// What follows from one moment has happened before the next one comes: an attempt that begins at 5 s and sleeps for 1 s ends
    /// at 6 s, in a single call. Returns when the world has settled at the new time. See ``TestWorld/settle()``.
    ///
    /// - Parameter duration: The time to let pass. Zero or less only lets happen what is due.
    public func advance(by duration: Duration) async { await advance(to: now.advanced(by: max(duration, .zero))) }

    /// Lets time pass until the clock shows `target`, like ``advance(by:)``; a target in the past counts as now.
    public func advance(to target: Instant) async {
        await settler.settle()
        while let next = manual.nextDeadline, next <= max(target, now) {
            manual.advance(to: next)
            await settler.settle()
        }
        manual.advance(to: target)
        await settler.settle()
    }
}

extension WorldClock: SchedulingClock {
    /// Calls back like ``manual``.
    package func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        manual.callBack(at: deadline, action)
    }
}

/// Knows when a world has settled.
private struct Settler: Sendable {
    let executor: WorldExecutor
    let network: SimulatedNetwork
    let bus: RetryBus

    func settle() async {
        while true {
            await executor.untilIdle()
            // Another thread may be delivering.
            network.deliverAll()
            // A job of a task that is not the world's may still be on its way.
            if !bus.isQuiet {
                await bus.untilQuiet()
            } else if executor.isIdleButForCaller {
                return
            }
        }
    }
}
