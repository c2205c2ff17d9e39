public import Reachability
public import ReachableJobs
public import ReachableRetry
internal import Synchronization

/// A clock, a network, a monitor and a retry bus for one test.
///
/// Time and the network change only when the test changes them, and ``settle()`` returns when all consequences have happened. A
/// test of an hour of outages takes milliseconds and gives the same result each time.
///
/// ```swift
/// @Test func uploadSurvivesOutage() async throws {
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
/// The world runs its tasks one at a time on its own thread: the body of ``run(_:)`` with its child tasks, tasks of
/// `start(_:)`, tasks of submitted jobs, and all attempts of the bus. They must not block that thread. Actors without a custom
/// executor run there too.
///
/// ``settle()`` does not wait for work elsewhere: on the main actor, in tasks that the code under test makes with `Task.init`
/// or detaches, in `URLSession`, in validators. Wait for such work before you settle, for example by awaiting its task or with
/// ``ReachableRetry/RetryBus/parked(_:)``.
///
/// Safe to use from any thread.
public final class TestWorld: Sendable {
    /// The network, as passed to ``init(_:monitorConfiguration:busConfiguration:generator:source:)``.
    public let network: SimulatedNetwork
    /// The monitor of the network, which runs during ``run(_:)``.
    public let monitor: ReachabilityMonitor
    /// A bus on the monitor and the clock.
    public let bus: RetryBus
    /// The clock of the network and the bus, to pass to the code under test.
    public let clock: WorldClock
    /// The durable jobs on the machine's disk: they survive ``TestProcess/kill()`` and ``reboot()``.
    ///
    /// Its time is that of ``clock``. A queue made with the store itself belongs to no process; ``launch()`` gives one that a
    /// test can kill.
    public let store: MemoryStore

    private let processes = Mutex<[TestProcess.Life]>([])
    private let makeBus: @Sendable () -> RetryBus
    private let executor: WorldExecutor
    private let settler: Settler

    /// Makes a world whose monitor does not run yet.
    ///
    /// - Parameters:
    ///   - network: The network that the monitor watches; its clock becomes the world's.
    ///   - monitorConfiguration: The monitor's configuration.
    ///   - busConfiguration: The bus's configuration. `ReleasePolicy.exact` makes all delays of its gates exact.
    ///   - generator: The source of the bus's jitter; by default the same numbers in every run.
    ///   - source: Makes the monitor's source from the network; by default returns the network itself.
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
        makeBus = { [monitor, busConfiguration] in
            RetryBus(monitor, configuration: busConfiguration, clock: network.clock, generator: generator)
        }
        bus = makeBus()
        settler = Settler(executor: executor, network: network, bus: bus)
        clock = WorldClock(manual: network.clock, settler: settler)
        let start = (network.clock.now.offset, network.activeTime)
        store = MemoryStore(
            uptime: { network.clock.now.offset.saturatingSubtract(start.0) },
            activeTime: { network.activeTime.saturatingSubtract(start.1) },
            wallTime: { SimulatedNetwork.startOfTime.saturatingAdd(network.clock.now.offset) })
    }

    deinit { executor.close() }

    /// Runs the monitor while `body` runs, and returns the body's value.
    ///
    /// The monitor ends after the body; remaining jobs continue without it. A monitor runs once, and so does a world.
    ///
    /// - Returns: The value of the body.
    /// - Throws: The error of the body, or the monitor's error if it cannot run.
    public func run<Value: Sendable>(_ body: @Sendable (TestWorld) async throws -> Value) async throws -> Value {
        let running = Task(executorPreference: executor) { [monitor] in try await monitor.run() }
        await settle()
        // The monitor has ended at once: throw its error.
        if !network.isRunning { try await running.value }
        let result: Result<Value, any Error>
        do {
            result = .success(
                try await withTaskExecutorPreference(executor) {
                    // With the optimizer the preference alone switches at the first suspension only.
                    await Task.yield()
                    return try await body(self)
                })
        } catch {
            result = .failure(error)
        }
        running.cancel()
        _ = await running.result
        return try result.get()
    }

    /// Starts a task that ``settle()`` waits for.
    ///
    /// - Parameter operation: The work; it begins when the calling task suspends.
    /// - Returns: The task.
    @discardableResult
    public func start<Value: Sendable>(_ operation: @escaping @Sendable () async throws -> Value) -> Task<Value, any Error> {
        Task(executorPreference: executor) { try await operation() }
    }

    /// Starts a task without errors that ``settle()`` waits for.
    ///
    /// - Parameter operation: The work; it begins when the calling task suspends.
    /// - Returns: The task.
    @discardableResult
    public func start<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
        Task(executorPreference: executor) { await operation() }
    }

    /// Starts a process that works on ``store``, and that a test can kill.
    public func launch() -> TestProcess {
        let (life, bus) = (TestProcess.Life(store), makeBus())
        processes.withLock { $0.append(life) }
        settler.otherBuses.add(bus)
        return TestProcess(world: self, bus: bus, life: life)
    }

    /// Restarts the machine: all processes end at once, whatever they were doing, and what they have stored stays.
    ///
    /// The store's claims are free afterwards, and no attempt counts as a crash. Returns when the tasks of the processes have
    /// ended. The network stays as it is, and no time passes; advance ``clock`` for the time that the machine was off.
    public func reboot() async {
        let ended = processes.withLock { processes in
            defer { processes = [] }
            return processes.flatMap { $0.end() }
        }
        store.reboot()
        for cancel in ended { cancel() }
        await settle()
        settler.otherBuses.removeAll()
    }

    /// Suspends until nothing more happens without time or an event.
    ///
    /// The monitor has then evaluated everything that was delivered, each job waits or runs an attempt, and each of the world's
    /// tasks has ended or waits: for the clock, for the network, or for something outside the world. It does not return while a
    /// task keeps working. Cancelling the calling task has no effect.
    public func settle() async { await settler.settle() }
}

/// The clock of a ``TestWorld``: it advances from one deadline to the next and lets the world settle in between.
///
/// Its sleeps and timers are those of ``manual``, in whole nanoseconds.
public struct WorldClock: Clock, Sendable {
    /// A point in the clock's time.
    public typealias Instant = ManualClock.Instant

    /// The underlying clock, whose `advance` does not wait for anything.
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

    /// Advances the clock; at each deadline of a timer or a sleep it stops until the world has settled.
    ///
    /// All consequences of one moment happen before the next one: an attempt that begins at 5 s and sleeps for 1 s ends at 6 s,
    /// in a single call. Returns when the world has settled at the new time. See ``TestWorld/settle()``.
    ///
    /// - Parameter duration: The time that passes. Zero or less runs only what is already due.
    public func advance(by duration: Duration) async { await advance(to: now.advanced(by: max(duration, .zero))) }

    /// Advances the clock to `target`, like ``advance(by:)``; a time in the past is treated as the present.
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
    /// Schedules an action on ``manual`` and returns a closure that cancels it.
    package func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        manual.callBack(at: deadline, action)
    }

    /// The time is that of ``manual``.
    package var identity: ObjectIdentifier { manual.identity }
}

/// Buses that come and go.
private final class BusList: Sendable {
    private let buses = Mutex<[RetryBus]>([])

    var all: [RetryBus] { buses.withLock { $0 } }

    func add(_ bus: RetryBus) { buses.withLock { $0.append(bus) } }

    func removeAll() {
        // Released outside of the lock.
        _ = buses.withLock { buses in
            defer { buses = [] }
            return buses
        }
    }
}

/// Waits until a world has settled.
private struct Settler: Sendable {
    let executor: WorldExecutor
    let network: SimulatedNetwork
    let bus: RetryBus
    /// The buses of processes.
    let otherBuses = BusList()

    func settle() async {
        while true {
            await executor.untilIdle()
            // Another thread may be delivering.
            network.deliverAll()
            // A job of a task outside the world may still be in transit.
            if let busy = ([bus] + otherBuses.all).first(where: { !$0.isQuiet }) {
                await busy.untilQuiet()
            } else if executor.isIdleButForCaller {
                return
            }
        }
    }
}

extension RetryBus {
    /// Suspends until the task of a job sleeps, because the job waits for a condition or a time.
    ///
    /// Use it for jobs that wait for the network, for which the clock has no timer. After it returns, the event that starts the
    /// job, such as ``SimulatedNetwork/plug(_:)`` or ``ManualClock/advance(by:)``, does start it. It also waits until the job
    /// is submitted.
    ///
    /// ```swift
    /// async let receipt = bus.retry(options: JobOptions(id: "photo")) { _ in try await upload(photo) }
    /// try await bus.parked("photo")
    /// try network.plug("eth0")
    /// ```
    ///
    /// - Throws: `CancellationError` when the calling task is cancelled.
    @discardableResult
    public func parked(_ id: JobID) async throws -> PendingJob { try await untilParked(id) }
}
