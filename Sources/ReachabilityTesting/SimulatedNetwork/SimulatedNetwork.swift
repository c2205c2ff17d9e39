internal import Glibc
public import Reachability
internal import Synchronization

/// A simulated network: a small model of the kernel on a clock that the test advances.
///
/// Give it to a `ReachabilityMonitor` as its source and pull its cables. A change is published when the call that makes it
/// returns: the next line can check the monitor's path and conditions, without waiting or sleeping.
///
/// ```swift
/// let network = SimulatedNetwork.online()
/// let monitor = ReachabilityMonitor(network)
/// let running = Task { try await monitor.run() }
/// try await network.untilRunning()
/// try network.pull("eth0")
/// #expect(monitor.path.offlineReason == .noCarrier)
/// ```
///
/// Safe to use from any thread. The thread that makes a change delivers its batch; if another thread is delivering, the call
/// waits until its own batch has been delivered too. A change made from within `deliver` is delivered by the same thread after
/// `deliver` has returned. No user code runs while the model is locked.
public final class SimulatedNetwork: Sendable {
    /// The clock that stamps the batches and runs the monitor's timers.
    public let clock: ManualClock

    /// The time of day when the clock shows zero: 2026-01-01T00:00:00Z, as the time since 1970-01-01T00:00:00Z.
    public static let startOfTime = Duration.seconds(1_767_225_600)

    /// Held briefly, never while user code runs.
    let state: Mutex<State>
    /// The timer that the last `deliver` asked for; locked while `deliver` runs.
    ///
    /// `deliver` is user code: it must not wait for a thread that changes this network.
    private let deliveryTimer = Mutex<ManualClock.Timer?>(nil)

    /// Makes a network from a model; the default model has only the loopback device.
    public init(_ kernel: SimulatedKernel = SimulatedKernel(), clock: ManualClock = ManualClock()) {
        self.clock = clock
        var kernel = kernel
        kernel.adopt(clock.now.offset)
        state = Mutex(State(kernel: kernel))
        scheduleModel()
    }

    /// Makes a network with one cable, `eth0`, to the internet: 192.0.2.10/24 with a default route through 192.0.2.1.
    ///
    /// With IPv6 it also has fe80::10/64, 2001:db8::10/64 and a default route through fe80::1.
    public static func online(clock: ManualClock = ManualClock(), hasIPv6: Bool = false) -> SimulatedNetwork {
        var kernel = SimulatedKernel()
        kernel.connectCable(hasIPv6: hasIPv6)
        return SimulatedNetwork(kernel, clock: clock)
    }

    /// A copy of the model as it is now.
    public var kernel: SimulatedKernel { state.withLock { $0.kernel } }

    /// The number of route lookups so far, failed ones included.
    public var lookups: Int { state.withLock { $0.lookups } }

    /// The number of dumps of the links and addresses so far, failed ones included.
    public var dumps: Int { state.withLock { $0.dumps } }

    /// The time on the clock without suspensions, as CLOCK_MONOTONIC counts it.
    var activeTime: Duration { clock.now.offset.saturatingSubtract(state.withLock { $0.suspended }) }

    /// True while a call of ``run(deliver:)`` is in progress.
    public var isRunning: Bool { state.withLock { $0.run != nil } }
}

extension SimulatedNetwork: UnderlaySource {
    /// Returns an answer from the model, which knows no neighbours and so no ports of bridges.
    package func inspect(_ inspection: Inspection) throws(ReachabilityError) -> UInt32? {
        guard case .ownRoute(let interfaces) = inspection else { return nil }
        let routes = kernel.routes.filter { route in
            route.type == .unicast && [0, route.family.bitWidth].contains(route.destination.length)
        }
        return interfaces.first { index in routes.contains { $0.nextHops.contains { $0.interface == index } } }
    }

    /// Does nothing: the model knows no neighbours.
    package func watch(gateways: Set<IPAddress>) {}

    /// Returns those of these links that exist.
    package func links(_ indices: [UInt32]) throws(ReachabilityError) -> [NetworkInterface] {
        kernel.interfaces.filter { indices.contains($0.index) }
    }
}

extension SimulatedNetwork: ClockedSource {
    /// The simulation's clock.
    package var sourceClock: (any Clock<Duration>)? { clock }

    /// Delivers an empty batch at once and then one for each change, until cancelled or stopped.
    ///
    /// - Throws: `CancellationError` when cancelled; the error of ``stop(throwing:)``; `ReachabilityError` if another run is in
    ///   progress.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try Task.checkCancellation()
        guard let id = state.withLock({ $0.begin(deliver) }) else {
            throw ReachabilityError(.alreadyRun, operation: "SimulatedNetwork.run")
        }
        defer { finish(id) }
        deliverAll()
        try await withCancellableContinuation { continuation in
            if let ending = state.withLock({ $0.park(continuation) }) { continuation.resume(with: ending) }
        } onCancel: {
            end(id, .failure(CancellationError()))
        }
    }

    /// Asks for an empty batch.
    ///
    /// The calling thread delivers it, or the thread that is already delivering. Never blocks.
    public func wake() {
        state.withLock { $0.enqueueEmptyBatch() }
        deliverIfPossible()
    }

    /// Returns the model's links with their addresses.
    ///
    /// - Throws: `ReachabilityError` after ``failNextRequests(_:errno:)`` or ``interruptNextDumps(_:)``.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        let operation = "SimulatedNetwork.interfaces"
        let (failure, isInterrupted, kernel) = state.withLock { state in
            state.dumps += 1
            let failure = state.takeFailure()
            return (failure, failure == nil && state.takeInterruption(), state.kernel)
        }
        if let failure { throw ReachabilityError(.requestFailed, errno: failure, operation: operation) }
        if isInterrupted { throw ReachabilityError(.interrupted, operation: operation) }
        return kernel.interfaces
    }

    /// Returns the model's verdicts, all of one moment; see ``SimulatedKernel/route(to:)``.
    ///
    /// After ``failNextRequests(_:errno:)`` every query fails.
    public func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        let (failure, kernel) = state.withLock { state in
            state.lookups += queries.count
            return (queries.isEmpty ? nil : state.takeFailure(), state.kernel)
        }
        return queries.map { query in
            if let failure {
                return .failure(ReachabilityError(.requestFailed, errno: failure, operation: "SimulatedNetwork.routes"))
            }
            return .success(kernel.route(to: query))
        }
    }

    /// Suspends until the network runs and its first batch has been delivered.
    ///
    /// - Throws: `CancellationError` when the calling task is cancelled.
    public func untilRunning() async throws {
        try Task.checkCancellation()
        let id = state.withLock { $0.makeID() }
        try await withCancellableContinuation { continuation in
            let isRunning = state.withLock { state in
                if state.run?.hasDelivered == true { return true }
                state.startWaiters[id] = continuation
                return false
            }
            if isRunning { continuation.resume() }
        } onCancel: {
            state.withLock { $0.startWaiters.removeValue(forKey: id) }?.resume(throwing: CancellationError())
        }
    }

    /// Ends a run.
    func end(_ id: UInt64?, _ ending: Result<Void, any Error>) {
        state.withLock { $0.end(id, ending) }?.resume(with: ending)
    }

    /// Removes a run after its last batch: `deliver` is not called again.
    private func finish(_ id: UInt64) {
        let timer = deliveryTimer.withLock { timer in
            // Under the lock: afterwards the timer may be the next run's.
            state.withLock { $0.remove(id) }
            defer { timer = nil }
            return timer
        }
        if let timer { clock.cancel(timer) }
        // Another thread may have queued a batch while the lock was held here.
        deliverIfPossible()
    }
}

/// Delivery of the queued batches.
extension SimulatedNetwork {
    /// Queues a batch and delivers it.
    func deliver(_ batch: NetworkEventBatch) {
        state.withLock { $0.enqueue(batch) }
        deliverAll()
    }

    /// Delivers all batches that were queued before the call.
    ///
    /// From within `deliver` it returns at once: the thread continues after `deliver` has returned.
    func deliverAll() {
        guard !isDelivering else { return }
        deliveryTimer.withLock { deliverQueue(&$0) }
        // A caller that does not wait may have queued a batch after the queue was empty and before the lock was free.
        deliverIfPossible()
    }

    /// Delivers all queued batches, unless another thread is delivering: that thread then delivers these, too.
    func deliverIfPossible() {
        guard !isDelivering else { return }
        // A thread that releases the lock looks at the queue again, so that no batch stays behind.
        while state.withLock({ $0.hasBatch }), deliveryTimer.withLockIfAvailable({ deliverQueue(&$0) }) != nil {}
        for waiter in state.withLock({ $0.takeStartWaiters() }) { waiter.resume() }
    }

    /// True if the calling thread is within `deliver`.
    private var isDelivering: Bool {
        let thread = pthread_self()
        return state.withLock { state in state.deliverer.map { pthread_equal($0, thread) != 0 } ?? false }
    }

    private func deliverQueue(_ timer: inout ManualClock.Timer?) {
        while let (run, queued) = state.withLock({ $0.takeBatch() }) {
            let now = clock.now
            var batch = queued
            batch.now = BootInstant(sinceBoot: now.offset)
            batch.wallTime = Self.startOfTime.saturatingAdd(now.offset)
            let pause = run.deliver(batch)
            if let timer { clock.cancel(timer) }
            timer = pause.map { pause in
                clock.schedule(at: now.advanced(by: max(pause, .zero))) { [weak self] in
                    self?.state.withLock { $0.enqueueEmptyBatch() }
                    self?.deliverAll()
                }
            }
            state.withLock { $0.noteDelivery(run.id) }
            // Another thread may have advanced the clock meanwhile, past the end of the pause: no later advance would come.
            if let due = timer, now < clock.now, due.deadline <= clock.now, clock.cancel(due) {
                timer = nil
                state.withLock { $0.enqueueEmptyBatch() }
            }
        }
    }
}

/// The model's own deadlines: ends of duplicate address detection.
extension SimulatedNetwork {
    /// Keeps the clock's timer at the model's next deadline.
    func scheduleModel() {
        while true {
            let (deadline, timer) = state.withLock { ($0.kernel.nextDeadline, $0.modelTimer) }
            guard timer?.deadline != deadline.map(ManualClock.Instant.init) else { return }
            let next = deadline.map { deadline in
                clock.schedule(at: .init(offset: deadline)) { [weak self] in self?.advanceModel(to: deadline) }
            }
            // Another thread may have changed the model meanwhile: the loop checks again.
            let old = state.withLock { state in
                defer { state.modelTimer = next }
                return state.modelTimer
            }
            if let old { clock.cancel(old) }
        }
    }

    private func advanceModel(to deadline: Duration) {
        state.withLock { $0.modelTimer = nil }
        // The clock's nanosecond may begin slightly before the model's deadline.
        let now = max(clock.now.offset, deadline)
        batch { kernel in kernel.advance(to: now) }
    }
}

extension NetworkEventBatch {
    /// A batch for the queue, which gets its time when it is delivered.
    init(
        queued events: [NetworkEvent], hasMore: Bool = false, spoofed: Int = 0, malformed: Int = 0, receiveBuffer: Int? = nil
    ) {
        self.init(
            events, now: BootInstant(sinceBoot: .zero), wallTime: .zero, hasMore: hasMore, spoofed: spoofed,
            malformed: malformed, receiveBuffer: receiveBuffer)
    }
}

extension SimulatedNetwork {
    /// The model, the queue of batches and the run that receives them.
    struct State: Sendable {
        typealias Deliver = @Sendable (NetworkEventBatch) -> Duration?
        typealias Waiter = CheckedContinuation<Void, any Error>

        /// A call of ``SimulatedNetwork/run(deliver:)``.
        struct Run: Sendable {
            enum Phase: Sendable {
                /// The call delivers its first batches.
                case beginning
                /// The call is suspended until the run ends.
                case parked(Waiter)
                /// The call returns or throws this.
                case ended(Result<Void, any Error>)
            }

            let id: UInt64
            let deliver: Deliver
            var phase: Phase
            /// True once the first batch has been delivered.
            var hasDelivered = false
        }

        var kernel: SimulatedKernel
        /// Counts the changes of the model.
        private(set) var revision: UInt64 = 0
        private(set) var run: Run?
        /// The ending of the next run, if ``SimulatedNetwork/stop(throwing:)`` came before it.
        private var nextEnding: Result<Void, any Error>?
        /// The tasks that wait for a run's first batch.
        var startWaiters: [UInt64: Waiter] = [:]
        /// The thread that delivers.
        private(set) var deliverer: pthread_t?
        /// The timer of the model's next deadline.
        var modelTimer: ManualClock.Timer?
        /// The time for which the machine was suspended.
        var suspended = Duration.zero
        var lookups = 0
        var dumps = 0
        var failures: (count: Int, errno: Int32) = (0, 0)
        /// The number of dumps to interrupt.
        var interruptions = 0
        var nameService = NameService()
        private var batches: [NetworkEventBatch] = []
        private var needsEmptyBatch = false
        private var lastID: UInt64 = 0

        init(kernel: SimulatedKernel) {
            self.kernel = kernel
            _ = self.kernel.takeEvents()
        }

        mutating func makeID() -> UInt64 {
            lastID += 1
            return lastID
        }

        /// Replaces the model and queues the batch; returns `false` if the model has changed since `revision`.
        mutating func commit(_ kernel: SimulatedKernel, since revision: UInt64, _ batch: NetworkEventBatch?) -> Bool {
            guard revision == self.revision else { return false }
            self.kernel = kernel
            self.revision += 1
            if let batch { enqueue(batch) }
            return true
        }

        // MARK: - The queue

        /// Queues a batch while a run receives batches.
        mutating func enqueue(_ batch: NetworkEventBatch) {
            if isReceiving { batches.append(batch) }
        }

        mutating func enqueueEmptyBatch() { needsEmptyBatch = isReceiving }

        var hasBatch: Bool { isReceiving && (!batches.isEmpty || needsEmptyBatch) }

        private var isReceiving: Bool {
            switch run?.phase {
            case .beginning, .parked: true
            case .ended, nil: false
            }
        }

        /// Removes the next batch for the calling thread to deliver; without one, the thread stops delivering.
        mutating func takeBatch() -> (Run, NetworkEventBatch)? {
            guard let run, hasBatch else {
                deliverer = nil
                return nil
            }
            deliverer = pthread_self()
            guard batches.isEmpty else { return (run, batches.removeFirst()) }
            needsEmptyBatch = false
            return (run, NetworkEventBatch(queued: []))
        }

        mutating func noteDelivery(_ id: UInt64) {
            if run?.id == id { run?.hasDelivered = true }
        }

        /// Removes and returns the tasks whose run has delivered its first batch.
        mutating func takeStartWaiters() -> [Waiter] {
            guard run?.hasDelivered == true else { return [] }
            defer { startWaiters = [:] }
            return Array(startWaiters.values)
        }

        // MARK: - The run

        /// Begins a run with an empty batch; returns `nil` if another run is in progress.
        mutating func begin(_ deliver: @escaping Deliver) -> UInt64? {
            guard run == nil else { return nil }
            let id = makeID()
            run = Run(id: id, deliver: deliver, phase: nextEnding.map { .ended($0) } ?? .beginning)
            nextEnding = nil
            batches = []
            enqueueEmptyBatch()
            return id
        }

        /// Moves the run from beginning to parked; returns its ending if it has ended.
        mutating func park(_ waiter: Waiter) -> Result<Void, any Error>? {
            if case .ended(let ending)? = run?.phase { return ending }
            run?.phase = .parked(waiter)
            return nil
        }

        /// Moves the run to ended, whatever its ID if `id` is `nil`; returns the parked call.
        mutating func end(_ id: UInt64?, _ ending: Result<Void, any Error>) -> Waiter? {
            guard let run, id == nil || run.id == id else { return nil }
            switch run.phase {
            case .ended: return nil
            case .beginning:
                self.run?.phase = .ended(ending)
                return nil
            case .parked(let waiter):
                self.run?.phase = .ended(ending)
                return waiter
            }
        }

        /// Ends the present run, or the next one before its first batch.
        mutating func stop(_ ending: Result<Void, any Error>) -> Waiter? {
            if run == nil { nextEnding = ending }
            return end(nil, ending)
        }

        /// Removes a run and the batches that it has not received.
        mutating func remove(_ id: UInt64) {
            guard run?.id == id else { return }
            run = nil
            batches = []
            needsEmptyBatch = false
        }

        // MARK: - Failures

        /// Returns the errno of the next request, if it fails.
        mutating func takeFailure() -> Int32? {
            guard failures.count > 0 else { return nil }
            failures.count -= 1
            return failures.errno
        }

        /// Returns `true` if the next dump is interrupted.
        mutating func takeInterruption() -> Bool {
            guard interruptions > 0 else { return false }
            interruptions -= 1
            return true
        }
    }
}
