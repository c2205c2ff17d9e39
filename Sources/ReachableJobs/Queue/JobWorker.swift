internal import FoundationEssentials
internal import Reachability
internal import ReachableRetry
internal import Synchronization

/// Runs the jobs of a queue: carries out what ``QueueCore`` decides.
///
/// Events come from any thread. One task performs the effects in their order; batches and attempts are tasks of their own.
final class JobWorker: Sendable {
    /// Thrown by an attempt that may not start, because its claim is not valid any more; the core knows.
    private struct StaleClaim: Error {}

    fileprivate struct Followed {
        var conditions: [Condition]
        var observers: [ConditionStorage.ID]
        var epoch: UInt64?
        var isOpen = false
    }

    fileprivate struct State {
        var core: QueueCore
        var now = BusTime.past
        var outbox: [QueueCore.Effect] = []
        var ended: [JobTicket] = []
        var permits: [JobTicket: UnsafeContinuation<Bool, Never>] = [:]
        var followed: [QueueCore.KindScope: Followed] = [:]
        var cancelTimer: (@Sendable () -> Void)?
        var cancelHeartbeat: (@Sendable () -> Void)?
        var rest: QueueRest?
        /// The time since which a task waits for a thread of Swift's pool.
        var probeBegan: BusTime?
        var report = Report()

        mutating func handle(_ event: QueueCore.Event, at reading: BusTime, _ room: QueueCore.AskRoom) {
            // Readings of several threads may overtake each other.
            now = max(now, reading)
            outbox += core.handle(event, at: now, room: room)
        }
    }

    fileprivate struct Report {
        /// The kinds of claimed jobs, whose results do not name them.
        var kinds: [JobTicket: String] = [:]
        /// The kinds and versions that are not registered, and were reported.
        var unregistered: Set<[String]> = []
        /// The time before which the gauges are not set again.
        var nextMeasure = BusTime.past
    }

    private let store: any JobStore
    private let bus: RetryBus
    private let configuration: JobQueue.Configuration
    private let kinds: [String: JobKind]
    private let instruments: QueueInstruments?
    private let publish: @Sendable (JobQueueEvent) -> Void
    /// The threads of the loop; `nil` in a test's world.
    private let executor: BlockingExecutor?
    private let state: Mutex<State>
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    init(
        _ store: any JobStore, _ bus: RetryBus, _ configuration: JobQueue.Configuration, _ kinds: [String: JobKind],
        _ instruments: QueueInstruments?, endsWhenIdle: Bool, publish: @escaping @Sendable (JobQueueEvent) -> Void
    ) {
        (self.store, self.bus, self.configuration, self.kinds) = (store, bus, configuration, kinds)
        (self.instruments, self.publish) = (instruments, publish)
        executor = bus.configuration.executor == nil ? BlockingExecutor() : nil
        var core = QueueCore(window: configuration.window)
        core.endsWhenIdle = endsWhenIdle
        for kind in kinds.values { core.register(kind.rules, name: kind.name) }
        state = Mutex(State(core: core))
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Begins; returns the task that ends with the worker, with the jobs whose attempts the shutdown cut.
    func start() -> Task<[DurableJobID], Never> {
        // Not a child: it goes on while the caller's task is cancelled, until running attempts have ended. Heartbeats must not wait
        // for threads that handlers block.
        Task(executorPreference: bus.configuration.executor ?? executor) { await self.perform() }
    }

    /// Ends the worker; running attempts may end by themselves for a duration, `nil` for as long as they take.
    func shutDown(drain: Duration?) {
        let now = bus.clock.now()
        send(.shutDown(drainEnd: drain.map { now + $0 } ?? .never))
    }

    private func perform() async -> [DurableJobID] {
        var cut: [DurableJobID] = []
        // The loop alone uses them: nothing waits for a lock while one begins.
        var tasks: [JobTicket: Task<Void, Never>] = [:]
        // Batches only: the loop still ends attempts while the store's executor waits for a lock. A test's world keeps its tasks.
        let executor = executor == nil ? nil : store.executor
        await withDiscardingTaskGroup { group in
            let changes = store.changes()
            group.addTask { [self] in for await _ in changes { send(.hint) } }
            send(.began(nodeOffset: store.nodeTime - bus.clock.now().nanoseconds))
            loop: for await _ in signals {
                let (effects, ended) = state.withLock { ($0.outbox.take(), $0.ended.take()) }
                for ticket in ended { tasks[ticket] = nil }
                for effect in effects {
                    switch effect {
                    case .ended(let jobs):
                        cut = jobs
                        break loop
                    case .batch(let batch):
                        // Without one the child keeps its parent's: `nil` would be another preference with the optimizer.
                        if let executor {
                            group.addTask(executorPreference: executor) { [self] in await run(batch) }
                        } else {
                            group.addTask { [self] in await run(batch) }
                        }
                    case .run(let claimed): tasks[claimed.ticket] = begin(claimed)
                    case .cancel(let ticket): tasks[ticket]?.cancel()
                    case .permit(let ticket, let mayStart):
                        // A job that is cancelled before the lease is lost is answered twice: the first answer counts.
                        state.withLock { $0.permits.removeValue(forKey: ticket) }?.resume(returning: mayStart)
                    case .follow(let kindScope): follow(kindScope)
                    case .unfollow(let kindScope): unfollow(kindScope)
                    case .backlog(let gate, let isThere):
                        guard let scope = ScopeText.scope(from: gate.scope) else { continue }
                        bus.setStoredBacklog(isThere, to: scope, destination: gate.destination)
                    case .wake(let time): arm(time)
                    case .gaveUp(let job, let reason): giveUp(job, reason)
                    case .refused(let ticket):
                        instruments?.refused(ticket.id)
                        publish(JobQueueEvent(.refused, ticket.id))
                    case .storeFails(let error):
                        instruments?.storeFails(error)
                        publish(JobQueueEvent(.storeFailed(error), nil))
                    case .idle(let period): group.addTask { [self] in await endIfIdle(period) }
                    }
                }
            }
            group.cancelAll()
        }
        // Attempts whose claims were lost may still be ending.
        for task in tasks.values { await task.value }
        let (followed, timers, worker) = state.withLock { state in
            (state.followed.keys, [state.cancelTimer, state.cancelHeartbeat], state.core.worker)
        }
        for cancel in timers { cancel?() }
        instruments?.workerEnded(worker)
        bus.forgetRoom(of: self)
        for kindScope in followed { unfollow(kindScope) }
        return cut
    }

    /// Gives an event to the core.
    ///
    /// - Parameter change: A change of the state that goes before it.
    private func send(_ event: QueueCore.Event, after change: (inout State) -> Void = { _ in }) {
        let reading = bus.clock.now()
        let hasEffects = state.withLock { state in
            change(&state)
            state.handle(event, at: reading, room)
            return !state.outbox.isEmpty
        }
        // While a batch is under way most events have none, and a wake-up costs more than they do.
        if hasEffects { signal.yield() }
    }

    /// Asks the bus for room, under the lock of the state: the bus's is taken inside of it, and never the other way round.
    private func room(for lanes: [(lane: Lane, isBacklog: Bool)]) -> (places: Room, rooms: [Room]) {
        let jobs = lanes.map { lane, isBacklog in
            RetryBus.StoredJobs(
                rules: (kinds[lane.kind]?.policy ?? .default).rules, scope: ScopeText.scope(from: lane.scope) ?? .internet,
                destination: lane.destination, isBacklog: isBacklog)
        }
        return bus.room(for: jobs, owner: self) { [weak self] in self?.send(.room) }
    }

    // MARK: - The store

    private func run(_ batch: StoreBatch) async {
        let began = bus.clock.now()
        if batch.extends { probePool(at: began) }
        let reply = await batch.run(on: store, configuration)
        // Refused results are the core's to report.
        let written = batch.writtenResults(reply)
        for event in written.compactMap(JobQueueEvent.init) { publish(event) }
        if let instruments { report(written, batch, reply, to: instruments) }
        if let error = reply.pruneError { instruments?.pruneFails(error) }
        let duration = bus.clock.now() - began
        if duration >= StoreLease.heartbeat { instruments?.storeIsSlow(duration) }
        send(.batchEnded(reply))
        guard reply.worker != nil || batch.extends && !reply.rest.extends else { return }
        armHeartbeat()
        if let instruments, instruments.isMeasured { await measure(instruments) }
    }

    /// Reports that no task got a thread of Swift's pool since the last heartbeat: handlers block all of them.
    private func probePool(at now: BusTime) {
        guard executor != nil, let instruments else { return }
        let began = state.withLock { state in
            defer { state.probeBegan = state.probeBegan ?? now }
            return state.probeBegan
        }
        if let began { return instruments.poolIsBlocked(now - began) }
        Task { [weak self] in self?.state.withLock { $0.probeBegan = nil } }
    }

    /// Sets a timer for the next heartbeat: that of the bus's clock comes late while handlers block the threads of Swift's pool.
    private func armHeartbeat() {
        let cancel = executor?.callBack(after: StoreLease.heartbeat + .seconds(1)) { [weak self] in self?.send(.timer) }
        let old = state.withLock { state in
            defer { state.cancelHeartbeat = cancel }
            return state.cancelHeartbeat
        }
        old?()
    }

    private func arm(_ time: BusTime) {
        state.withLock { $0.cancelTimer.take() }?()
        guard !time.isNever else { return }
        let cancel = bus.clock.schedule(time) { [weak self] in self?.send(.timer) }
        state.withLock { $0.cancelTimer = cancel }
    }

    // MARK: - Attempts

    /// Begins the task of a claimed job.
    ///
    /// It runs here to where it waits for the store: elsewhere many of them would wait for each other at the lock of the bus. What
    /// may take its time is done elsewhere, so that the loop goes on.
    private func begin(_ claimed: ClaimedJob) -> Task<Void, Never> {
        guard kinds[claimed.job.kind]?.isReadAtOnce(claimed.job) == true else { return bus.task { [self] in await run(claimed) } }
        return Task.immediate(executorPreference: bus.configuration.executor) { [self] in await run(claimed) }
    }

    private func run(_ claimed: ClaimedJob) async {
        await TraceContext.propagate(claimed.job.traceContext, bus) {
            guard let (attempt, work) = submit(claimed) else { return }
            finish(claimed, after: await attempt.run { try await perform(claimed, work, $0) })
        }
    }

    /// Submits a claimed job to the bus; returns its attempt and the work, or `nil` if it has ended without one.
    // Not inlined: the frame of a job that waits would keep what the bus needs to know.
    @inline(never)
    private func submit(_ claimed: ClaimedJob) -> (StoredAttempt, JobKind.Work.Perform)? {
        let (job, ticket) = (claimed.job, claimed.ticket)
        guard let kind = kinds[job.kind], let scope = ScopeText.scope(from: job.scope) else {
            finish(claimed, .withdrawn(ticket))
            return nil
        }
        guard let work = kind.work(job) else {
            instruments?.undecodable(job)
            finish(claimed, .undecodable(ticket))
            return nil
        }
        let options = JobOptions(
            destination: job.destination, when: kind.conditions, priority: job.priority, id: JobID(job.id.description))
        var past = job.past
        if job.softDelay != nil { past.hasReconnected = state.withLock { $0.core.hasReconnected(job) } }
        let remaining = job.deadline.flatMap { deadline in storeTime.map { $0.duration(to: deadline) } }
        do throws(RetryError) {
            let policy = work.policy.giveUpAfter(elapsed: remaining)
            return (try bus.submitAttempt(policy, to: scope, options: options, past: past), work.perform)
        } catch {
            // Without a bus there is nothing more to do.
            if error == .shutDown { shutDown(drain: .zero) }
            finish(claimed, .withdrawn(ticket))
            return nil
        }
    }

    private func perform(_ claimed: ClaimedJob, _ work: JobKind.Work.Perform, _ attempt: Attempt) async throws {
        guard await mayStart(claimed.ticket) else { throw StaleClaim() }
        let job = claimed.job
        publish(JobQueueEvent(.attemptStarted(attempt.number), job.id))
        try await work(DurableAttempt(id: job.id, attempt: attempt, idempotencyKey: job.idempotencyKey, lastError: job.lastError))
    }

    // Not inlined, like `submit`.
    @inline(never)
    private func finish(_ claimed: ClaimedJob, after end: AttemptEnd<Void>) {
        let result = AttemptResult(end, of: claimed) { storeTime }
        finish(claimed, result.map { .ended($0) } ?? .withdrawn(claimed.ticket))
    }

    private func finish(_ claimed: ClaimedJob, _ event: QueueCore.Event) {
        send(event) { $0.ended.append(claimed.ticket) }
    }

    private var storeTime: StoreInstant? {
        let now = bus.clock.now()
        return state.withLock { $0.core.storeTime(now) }
    }

    /// Waits until the store has recorded a start; returns false if the attempt may not start.
    private func mayStart(_ ticket: JobTicket) async -> Bool {
        await withUnsafeContinuation { continuation in
            var hasEnded = false
            send(.wantsStart(ticket)) { state in
                hasEnded = state.core.hasEnded
                if !hasEnded { state.permits[ticket] = continuation }
            }
            // The core answers nothing any more.
            if hasEnded { continuation.resume(returning: false) }
        }
    }

    private func giveUp(_ job: DurableJob, _ reason: String) {
        let report = GiveUp(
            of: JobID(job.id.description), reason: GiveUp.Reason(rawValue: reason), past: job.counters.past)
        for handler in kinds[job.kind]?.policy.rules.giveUpHandlers ?? [] { handler(report) }
        // A claimed job's end is reported when it is written.
        guard job.state == .failed else { return }
        instruments?.ended(job.id, kind: job.kind, .failed, reason: reason, job.counters)
        publish(JobQueueEvent(.failed(reason: reason, job.lastError), job.id))
    }

    // MARK: - Instruments

    private func report(
        _ written: [AttemptResult], _ batch: StoreBatch, _ reply: StoreBatch.Reply, to instruments: QueueInstruments
    ) {
        let unregistered = (reply.claims?.newLanes ?? []).filter { kinds[$0.kind]?.versions.contains($0.version) != true }
        let (ended, lanes) = state.withLock { state in
            if reply.worker != nil { state.report.kinds = [:] }
            let ended = written.map { ($0, state.report.kinds[$0.ticket] ?? "") }
            for (result, _) in zip(batch.writes.results, reply.results) { state.report.kinds[result.ticket] = nil }
            for claimed in reply.claims?.jobs ?? [] { state.report.kinds[claimed.ticket] = claimed.job.kind }
            return (ended, unregistered.filter { state.report.unregistered.insert([$0.kind, "\($0.version)"]).inserted })
        }
        if let worker = reply.worker { instruments.workerBegan(worker) }
        for lane in lanes { instruments.unregistered(kind: lane.kind, version: lane.version) }
        for (result, kind) in ended {
            guard let (state, reason) = result.outcome.end else { continue }
            instruments.ended(result.ticket.id, kind: kind, state, reason: reason, result.counters)
        }
    }

    /// Sets the gauges, with a batch that woke the worker anyway.
    ///
    /// A store may read all of its jobs for it: at most a hundredth of the time is spent here.
    private func measure(_ instruments: QueueInstruments) async {
        let begin = bus.clock.now()
        guard state.withLock({ $0.report.nextMeasure <= begin }), let counts = try? await store.count(queue: configuration.name)
        else { return }
        let end = bus.clock.now()
        state.withLock { $0.report.nextMeasure = end + (end - begin) * 100 }
        instruments.record(counts, at: configuration.date())
    }

    // MARK: - Ending by itself

    /// The jobs that are left; ``QueueRest/stopped`` unless the worker has ended by itself.
    var rest: QueueRest { state.withLock { $0.rest } ?? .stopped }

    /// Ends the worker if nothing is left that it could wait for, and nothing has changed meanwhile.
    ///
    /// Otherwise the next hint or heartbeat makes it look again.
    private func endIfIdle(_ period: Int) async {
        guard let rest = try? await findRest() else { return }
        let now = bus.clock.now()
        state.withLock { state in
            guard state.core.idlePeriod == period else { return }
            state.rest = rest
            state.handle(.shutDown(drainEnd: now), at: now, room)
        }
        signal.yield()
    }

    private func findRest() async throws(JobStoreError) -> QueueRest? {
        let queue = configuration.name
        for job in try await store.find(JobFilter(queue: queue, states: [.running])) {
            if try await isAwaited(job) { return nil }
        }
        let left = JobFilter(queue: queue, states: [.available, .running], limit: QueueRest.mostJobs)
        let ids = try await store.find(left).map(\.id)
        if ids.isEmpty { return .empty }
        let outlook = outlook { _ in false }
        let pending = try await store.explain(ids).compactMap(\.self).map {
            PendingDurableJob($0, seenBy: outlook, on: configuration.node)
        }
        // One that was pushed just now, of which a hint tells.
        guard pending.allSatisfy(\.isBlocked) else { return nil }
        let count = try await store.count(queue: queue).reduce(0) { $1.state.isFinal ? $0 : $0 + $1.count }
        return .blocked(pending, count: count)
    }

    /// True if the end of a job that another worker runs may bring this one something to do.
    private func isAwaited(_ job: DurableJob) async throws(JobStoreError) -> Bool {
        if kinds[job.kind] != nil { return true }
        guard let key = job.serialKey else { return false }
        let followers = JobFilter(
            queue: configuration.name, states: [.available], kinds: Set(kinds.keys), serialKey: key, limit: 1)
        return try await !store.find(followers).isEmpty
    }

    // MARK: - Outlook

    /// Returns this worker's part of why jobs do not run.
    ///
    /// - Parameter needsBus: Decides about the jobs on the bus.
    func outlook(needsBus: (WorkerOutlook) -> Bool) -> WorkerOutlook {
        let (claims, followed) = state.withLock { ($0.core.outlook, $0.followed) }
        var outlook = claims
        for (kindScope, followed) in followed { outlook.unmet[kindScope] = unmet(kindScope, followed) }
        guard needsBus(outlook) else { return outlook }
        for job in bus.pending { if let id = DurableJobID("\(job.id)") { outlook.onBus[id] = job } }
        return outlook
    }

    private func unmet(_ kindScope: QueueCore.KindScope, _ followed: Followed) -> [PendingDurableJob.Reason] {
        let waitsForNetwork = kinds[kindScope.kind]?.waitsForNetwork == true
        return followed.conditions.enumerated().compactMap { index, condition in
            guard !condition.storage.reading.isOpen(isReachability: condition.storage.isReachability) else { return nil }
            guard index == 0, waitsForNetwork, let scope = ScopeText.scope(from: kindScope.scope) else {
                return .init(.condition, WaitWords.waits(for: [WaitWords.condition(condition.name)]))
            }
            let words = WaitWords.network(scope, missing: bus.monitor.missing(for: scope))
            return .init(.network, WaitWords.waits(for: [words]))
        }
    }

    // MARK: - The network

    /// Begins to follow the conditions of a kind and scope.
    ///
    /// The bus follows the scope, too: the first job may come after an edge that its gate has to see.
    private func follow(_ kindScope: QueueCore.KindScope) {
        guard let kind = kinds[kindScope.kind], let scope = ScopeText.scope(from: kindScope.scope) else { return }
        let conditions = (kind.waitsForNetwork ? [bus.monitor.condition(for: scope)] : []) + kind.conditions
        if kind.waitsForNetwork { bus.expectJobs(to: scope) }
        let observers = conditions.map { $0.storage.observe { [weak self] in self?.look(at: kindScope) } }
        state.withLock { $0.followed[kindScope] = Followed(conditions: conditions, observers: observers) }
        look(at: kindScope)
    }

    private func unfollow(_ kindScope: QueueCore.KindScope) {
        guard let followed = state.withLock({ $0.followed.removeValue(forKey: kindScope) }) else { return }
        for (condition, observer) in zip(followed.conditions, followed.observers) { condition.storage.removeObserver(observer) }
        guard kinds[kindScope.kind]?.waitsForNetwork == true, let scope = ScopeText.scope(from: kindScope.scope) else { return }
        bus.expectNoJobs(to: scope)
    }

    private func look(at kindScope: QueueCore.KindScope) {
        let reading = bus.clock.now()
        state.withLock { state in
            guard var followed = state.followed[kindScope] else { return }
            // Read under the lock, so that the last reading wins.
            let readings = followed.conditions.map { ($0.storage.reading, $0.storage.isReachability) }
            let isOpen = readings.allSatisfy { $0.0.isOpen(isReachability: $0.1) }
            let epoch = readings.reduce(0) { $0 &+ $1.0.state.epoch }
            let isEdge = followed.epoch.map { $0 != epoch } ?? false
            let isNews = followed.epoch == nil || isEdge || followed.isOpen != isOpen
            (followed.epoch, followed.isOpen) = (epoch, isOpen)
            state.followed[kindScope] = followed
            if isNews { state.handle(.conditions(kindScope, isOpen: isOpen, isEdge: isEdge), at: reading, room) }
        }
        signal.yield()
    }
}

extension Array {
    fileprivate mutating func take() -> [Element] {
        defer { self = [] }
        return self
    }
}

extension ConditionStorage.Reading {
    /// True if jobs may be claimed: satisfied, or a monitor without a verdict, with which the bus deals.
    fileprivate func isOpen(isReachability: Bool) -> Bool {
        state.isSatisfied || isReachability && (!isKnown || state.isFinished)
    }
}
