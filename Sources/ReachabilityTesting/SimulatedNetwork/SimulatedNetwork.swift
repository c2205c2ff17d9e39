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

/// Batches, lost events and failing requests.
extension SimulatedNetwork {
    /// Makes several changes and delivers their events as one batch; delivers nothing if no event was announced.
    ///
    /// - Parameters:
    ///   - hasMore: The batch's flag that more events wait to be read.
    ///   - changes: Changes a copy of the model. If another thread changes the network meanwhile, it is called again with a new
    ///     copy. If it throws, nothing changes.
    @discardableResult
    public func batch<Value, Failure: Error>(
        hasMore: Bool = false, _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { $0.isEmpty ? nil : .init(queued: $0, hasMore: hasMore) }
    }

    /// Makes changes and delivers no events, like a kernel that does not announce a change.
    ///
    /// Only an audit finds such changes.
    ///
    /// - Parameter changes: As for ``batch(hasMore:_:)``.
    @discardableResult
    public func changeSilently<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { _ in nil }
    }

    /// Makes changes whose events are lost, and delivers `NetworkEvent.overrun` instead: the receive buffer was full (ENOBUFS,
    /// netlink(7)).
    ///
    /// - Parameter changes: As for ``batch(hasMore:_:)``.
    @discardableResult
    public func loseEvents<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { _ in .init(queued: [.overrun]) }
    }

    private func change<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value,
        announcing makeBatch: ([NetworkEvent]) -> NetworkEventBatch?
    ) throws(Failure) -> Value {
        while true {
            var (kernel, revision) = state.withLock { ($0.kernel, $0.revision) }
            kernel.now = max(kernel.now, clock.now.offset)
            let value = try changes(&kernel)
            let batch = makeBatch(kernel.takeEvents())
            guard state.withLock({ $0.commit(kernel, since: revision, batch) }) else { continue }
            scheduleModel()
            if batch != nil { deliverAll() }
            return value
        }
    }

    /// Delivers events without a change.
    public func announce(_ events: NetworkEvent..., hasMore: Bool = false) {
        deliver(.init(queued: events, hasMore: hasMore))
    }

    /// Delivers a batch that counts datagrams from another sender than the kernel.
    public func announceSpoofed(_ count: Int) { deliver(.init(queued: [], spoofed: count)) }

    /// Delivers a batch that counts malformed messages.
    public func announceMalformed(_ count: Int) { deliver(.init(queued: [], malformed: count)) }

    /// Delivers a batch with the size of the receive buffer in bytes.
    public func announceReceiveBuffer(_ size: Int) { deliver(.init(queued: [], receiveBuffer: size)) }

    /// Suspends the machine for a while.
    ///
    /// The clock moves on in one step, `NetworkEvent.resumed(after:)` is delivered, and then overdue timers run.
    public func suspend(for duration: Duration) {
        state.withLock { $0.suspended = $0.suspended.saturatingAdd(max(duration, .zero)) }
        clock.jump(by: duration) { deliver(.init(queued: [.resumed(after: max(duration, .zero))])) }
    }

    /// Makes the next requests fail, as when the kernel is out of memory.
    ///
    /// A request is a call of ``interfaces()`` or of ``routes(to:)``; all queries of a call fail together.
    ///
    /// - Parameters:
    ///   - count: The number of requests; it replaces the number of an earlier call. Values below 1 end the failures.
    ///   - errno: The error number of the `ReachabilityError`, whose code is `requestFailed`.
    public func failNextRequests(_ count: Int, errno: Int32) {
        state.withLock { $0.failures = (count, errno) }
    }

    /// Interrupts the next dumps: ``interfaces()`` throws `ReachabilityError.Code.interrupted`, as when links or addresses change
    /// during a dump (NLM_F_DUMP_INTR, netlink(7)).
    ///
    /// - Parameter count: The number of dumps; it replaces the number of an earlier call. Values below 1 end the interruptions.
    public func interruptNextDumps(_ count: Int) {
        state.withLock { $0.interruptions = count }
    }

    /// Ends the run: ``run(deliver:)`` throws `error`, or returns if it is `nil`.
    ///
    /// If the network does not run, the next run ends in this way before its first batch.
    public func stop(throwing error: (any Error)? = nil) {
        let ending: Result<Void, any Error> = error.map { .failure($0) } ?? .success(())
        state.withLock { $0.stop(ending) }?.resume(with: ending)
    }
}

/// Single changes, named like the commands of ip(8).
///
/// Each is published as one batch when the call returns. An impossible change throws ``SimulationError`` and changes nothing. The
/// members of ``SimulatedKernel`` with the same names list the announcements.
extension SimulatedNetwork {
    /// Adds a link: ``SimulatedKernel/addLink(_:kind:isUp:hasCarrier:isPointToPoint:)``.
    @discardableResult
    public func addLink(
        _ name: String, kind: NetworkInterface.Kind = .wired, isUp: Bool = true, hasCarrier: Bool = true,
        isPointToPoint: Bool? = nil
    ) throws(SimulationError) -> UInt32 {
        try batch { kernel throws(SimulationError) in
            try kernel.addLink(name, kind: kind, isUp: isUp, hasCarrier: hasCarrier, isPointToPoint: isPointToPoint)
        }
    }

    /// Removes a link: ``SimulatedKernel/removeLink(_:)``.
    public func removeLink(_ name: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeLink(name) }
    }

    /// Sets a link up or down: ``SimulatedKernel/setUp(_:_:)``.
    public func setUp(_ name: String, _ isUp: Bool) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setUp(name, isUp) }
    }

    /// Plugs a link's cable in or pulls it out: ``SimulatedKernel/setCarrier(_:_:)``.
    public func setCarrier(_ name: String, _ hasCarrier: Bool) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setCarrier(name, hasCarrier) }
    }

    /// Pulls a link's cable out.
    public func pull(_ name: String) throws(SimulationError) { try setCarrier(name, false) }

    /// Plugs a link's cable in.
    public func plug(_ name: String) throws(SimulationError) { try setCarrier(name, true) }

    /// Sets a link's operational state: ``SimulatedKernel/setOperationalState(_:_:)``.
    public func setOperationalState(
        _ name: String, _ operationalState: NetworkInterface.OperationalState
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setOperationalState(name, operationalState) }
    }

    /// Renames a link: ``SimulatedKernel/rename(_:to:)``.
    public func rename(_ name: String, to newName: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.rename(name, to: newName) }
    }

    /// Sets a sysctl: ``SimulatedKernel/setSysctl(_:_:)``.
    public func setSysctl(_ key: String, _ value: Int) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setSysctl(key, value) }
    }

    /// Adds an address to a link: ``SimulatedKernel/addAddress(_:_:isTentative:isOptimistic:skipsDetection:)``.
    public func addAddress(
        _ name: String, _ address: String, isTentative: Bool = false, isOptimistic: Bool = false, skipsDetection: Bool = false
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addAddress(
                name, address, isTentative: isTentative, isOptimistic: isOptimistic, skipsDetection: skipsDetection)
        }
    }

    /// Removes an address from a link: ``SimulatedKernel/removeAddress(_:_:)``.
    public func removeAddress(_ name: String, _ address: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeAddress(name, address) }
    }

    /// Finishes duplicate address detection: ``SimulatedKernel/finishDetection(of:on:hasFailed:)``.
    public func finishDetection(of address: String, on name: String, hasFailed: Bool = false) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.finishDetection(of: address, on: name, hasFailed: hasFailed) }
    }

    /// Adds a route: ``SimulatedKernel/addRoute(to:via:dev:metric:type:source:table:from:)``.
    public func addRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: SimulatedKernel.RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addRoute(
                to: destination, via: gateway, dev: name, metric: metric, type: type, source: source, table: table,
                from: sources)
        }
    }

    /// Adds a multipath route: ``SimulatedKernel/addRoute(to:through:metric:table:)``.
    public func addRoute(
        to destination: String, through hops: [SimulatedKernel.Hop], metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addRoute(to: destination, through: hops, metric: metric, table: table)
        }
    }

    /// Adds a route through a nexthop object: ``SimulatedKernel/addRoute(to:nexthop:metric:table:)``.
    public func addRoute(
        to destination: String, nexthop id: UInt32, metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addRoute(to: destination, nexthop: id, metric: metric, table: table)
        }
    }

    /// Adds or replaces a route: ``SimulatedKernel/replaceRoute(to:via:dev:metric:type:source:table:from:)``.
    public func replaceRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: SimulatedKernel.RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.replaceRoute(
                to: destination, via: gateway, dev: name, metric: metric, type: type, source: source, table: table,
                from: sources)
        }
    }

    /// Removes a route: ``SimulatedKernel/removeRoute(to:via:dev:metric:table:from:)``.
    public func removeRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil, table: UInt32 = 254,
        from sources: String? = nil
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.removeRoute(to: destination, via: gateway, dev: name, metric: metric, table: table, from: sources)
        }
    }

    /// Adds a policy rule: ``SimulatedKernel/addRule(_:)``.
    public func addRule(_ rule: SimulatedKernel.Rule) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addRule(rule) }
    }

    /// Removes a policy rule: ``SimulatedKernel/removeRule(priority:family:)``.
    public func removeRule(priority: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeRule(priority: priority, family: family) }
    }

    /// Adds a nexthop object: ``SimulatedKernel/addNexthop(_:via:dev:family:)``.
    public func addNexthop(
        _ id: UInt32, via gateway: String? = nil, dev name: String, family: IPAddress.Family = .ipv4
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addNexthop(id, via: gateway, dev: name, family: family) }
    }

    /// Adds a group of nexthop objects: ``SimulatedKernel/addNexthopGroup(_:of:)``.
    public func addNexthopGroup(_ id: UInt32, of members: [UInt32]) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addNexthopGroup(id, of: members) }
    }

    /// Adds a nexthop object that refuses packets: ``SimulatedKernel/addBlackholeNexthop(_:family:)``.
    public func addBlackholeNexthop(_ id: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addBlackholeNexthop(id, family: family) }
    }

    /// Replaces a nexthop object: ``SimulatedKernel/replaceNexthop(_:via:dev:)``.
    public func replaceNexthop(_ id: UInt32, via gateway: String? = nil, dev name: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.replaceNexthop(id, via: gateway, dev: name) }
    }

    /// Replaces a nexthop object by one that refuses packets: ``SimulatedKernel/replaceNexthopByBlackhole(_:)``.
    public func replaceNexthopByBlackhole(_ id: UInt32) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.replaceNexthopByBlackhole(id) }
    }

    /// Removes a nexthop object: ``SimulatedKernel/removeNexthop(_:)``.
    public func removeNexthop(_ id: UInt32) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeNexthop(id) }
    }
}

/// Hosts and the name servers that know them.
extension SimulatedNetwork: HostResolving {
    /// The behaviour of the name servers.
    public enum NameServers: Hashable, Sendable {
        /// They answer with the addresses of ``SimulatedNetwork/setHost(_:to:)``, or that the host does not exist.
        case answers
        /// They do not answer: a lookup fails with `NameLookupFailure.noAnswer` after ``SimulatedNetwork/nameServerTimeout``.
        case silent
        /// They refuse at once: `NameLookupFailure.refused`.
        case refuses
    }

    /// The time after which a lookup without an answer fails: two attempts of 5 s each (resolv.conf(5)).
    public static let nameServerTimeout = Duration.seconds(10)

    /// Sets the addresses of a host that the name servers know; without addresses the host does not exist.
    ///
    /// A monitor learns them with its next lookup: its first one, after a change of the path to the internet or of a file
    /// (``changeResolver(_:)``), and at intervals.
    ///
    /// - Throws: ``SimulationError`` if an address cannot be parsed.
    public func setHost(_ name: String, to addresses: String...) throws(SimulationError) {
        var parsed: [IPAddress] = []
        for text in addresses {
            guard let address = IPAddress(text) else {
                throw SimulationError("setHost(\"\(name)\", to: \"\(text)\")", "that is not an IP address")
            }
            parsed.append(address)
        }
        state.withLock { $0.nameService.hosts[name.lowercased()] = parsed.isEmpty ? nil : parsed }
    }

    /// Sets the behaviour of the name servers.
    ///
    /// Lookups that wait for silent name servers are answered at once if the new behaviour is to answer or to refuse.
    public func setNameServers(_ nameServers: NameServers) {
        let timers = state.withLock { state in
            state.nameService.servers = nameServers
            guard nameServers != .silent else { return [ManualClock.Timer]() }
            for host in state.nameService.unanswered.keys.sorted() { state.enqueueAnswer(for: host) }
            defer { state.nameService.unanswered = [:] }
            return Array(state.nameService.unanswered.values)
        }
        for timer in timers { clock.cancel(timer) }
        if !timers.isEmpty { deliverAll() }
    }

    /// Announces the change of a file by which the system looks up names: a monitor looks up its hosts again 100 ms later.
    ///
    /// The names that can be looked up are those of ``setHost(_:to:)`` and ``setNameServers(_:)``.
    public func changeResolver(_ file: String = "/etc/resolv.conf") { announce(.resolverChanged(file: file)) }

    /// Looks up a host; the answer is an event, delivered after the present batch.
    ///
    /// Silent name servers answer after ``setNameServers(_:)``; otherwise the lookup fails after ``nameServerTimeout``.
    public func resolve(_ host: String) {
        let isSilent = state.withLock { state in
            state.nameService.lookups += 1
            if state.nameService.servers == .silent { return true }
            state.enqueueAnswer(for: host)
            return false
        }
        guard isSilent else { return deliverIfPossible() }
        let timer = clock.schedule(at: clock.now.advanced(by: Self.nameServerTimeout)) { [weak self] in self?.giveUp(host) }
        let superfluous = state.withLock { state in
            // Another thread may have changed the name servers meanwhile.
            if state.nameService.servers == .silent { return state.nameService.unanswered.updateValue(timer, forKey: host) }
            state.enqueueAnswer(for: host)
            return timer
        }
        if let superfluous { clock.cancel(superfluous) }
        deliverIfPossible()
    }

    private func giveUp(_ host: String) {
        let isUnanswered = state.withLock { state in
            guard state.nameService.unanswered.removeValue(forKey: host) != nil else { return false }
            state.enqueue(.init(queued: [.host(host, .failed(.noAnswer))]))
            return true
        }
        if isUnanswered { deliverAll() }
    }

    /// The number of lookups of hosts so far.
    public var hostLookups: Int { state.withLock(\.nameService.lookups) }
}

extension SimulatedNetwork: HostAnswering {
    /// Returns the name servers' present answers.
    ///
    /// Silent name servers fail at once: the calling thread cannot wait for a manual clock.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        state.withLock { state in
            state.nameService.lookups += hosts.count
            return hosts.map { state.nameService.answer(for: $0) }
        }
    }
}

extension SimulatedNetwork {
    /// The name servers, their hosts and the lookups that wait for an answer.
    struct NameService: Sendable {
        /// The addresses of each host, by its name in lower case.
        var hosts: [String: [IPAddress]] = [:]
        var servers = NameServers.answers
        /// The timeout of each lookup without an answer.
        var unanswered: [String: ManualClock.Timer] = [:]
        var lookups = 0

        func answer(for host: String) -> HostAnswer {
            switch servers {
            case .answers: hosts[host.lowercased()].map(HostAnswer.addresses) ?? .failed(.notFound)
            case .silent: .failed(.noAnswer)
            case .refuses: .failed(.refused)
            }
        }
    }
}

extension SimulatedNetwork.State {
    fileprivate mutating func enqueueAnswer(for host: String) {
        enqueue(.init(queued: [.host(host, nameService.answer(for: host))]))
    }
}
