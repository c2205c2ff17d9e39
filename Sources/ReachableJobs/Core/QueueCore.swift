internal import ReachableRetry

/// A claimed job, which is shared: a copy of all that a job has would cost more than most decisions about it.
final class ClaimedJob: Sendable {
    let job: DurableJob
    let ticket: JobTicket

    init(_ claimed: Claims.Claimed) { (job, ticket) = (claimed.job, claimed.ticket) }
}

/// The decisions of a worker: what to claim, when to ask the store again, what to give back.
///
/// Pure: each event comes with the store's time, and effects are returned. The store is asked in batches, one at a time, each of
/// which carries everything that has to be written and read. Gate, conditions, budget and backoff are the retry bus's: a job that
/// runs here waits there for its permit.
///
/// ```
/// available ──claim──▶ waiting ──start──▶ starting ──permit──▶ running ──result──▶ written
///                         └── lane closed, paused, no start within 100 ms, shutdown ──▶ given back
/// ```
struct QueueCore: Sendable {
    /// The rules of a registered kind that decisions depend on.
    struct Kind: Hashable, Sendable {
        /// The versions of payloads that this worker can read.
        var versions: Set<Int>
        /// The most jobs of the kind that this worker holds at a time.
        var limit: Int?
        var maxAttempts: Int?
        var isGated = true
    }

    struct Gate: Hashable, Sendable {
        var scope: String
        var destination: String?
    }

    /// The jobs that wait for the same network and conditions: those of one kind and scope.
    struct KindScope: Hashable, Sendable {
        var kind: String
        var scope: String
    }

    enum Event: Sendable {
        /// The worker begins.
        ///
        /// The offset is the node's time less the worker's: ``JobStore/nodeTime``.
        case began(nodeOffset: Int64)
        /// The store hints at a change.
        case hint
        /// The network and the conditions of a kind and scope are available, or were lost.
        ///
        /// An edge ends the backoff of network failures before it.
        case conditions(KindScope, isOpen: Bool, isEdge: Bool)
        /// The bus may have room for more jobs.
        case room
        /// A job has its permit and asks to start an attempt.
        case wantsStart(JobTicket)
        /// An attempt ended with a result.
        case ended(AttemptResult)
        /// A job's payload cannot be decoded here.
        case undecodable(JobTicket)
        /// A job's task ended without a result: it was cancelled here, or the bus cut an attempt that must not be repeated.
        case withdrawn(JobTicket)
        case batchEnded(StoreBatch.Reply)
        /// The time of the last ``Effect/wake(at:)`` has come.
        case timer
        /// The worker ends: running attempts may end by themselves until a time.
        case shutDown(drainEnd: BusTime)
    }

    enum Effect: Sendable {
        case batch(StoreBatch)
        /// Runs a claimed job on the bus.
        case run(ClaimedJob)
        /// Cancels the task of a job.
        case cancel(JobTicket)
        /// Answers ``Event/wantsStart(_:)``.
        case permit(JobTicket, Bool)
        /// Begins to follow the network and the conditions of a kind and scope.
        case follow(KindScope)
        /// Ends ``follow(_:)``: no lane is left.
        case unfollow(KindScope)
        /// Tells a gate that more jobs for it are stored than were claimed, or that no more are.
        case backlog(Gate, Bool)
        /// Asks for ``Event/timer`` at a time, which replaces earlier ones; ``BusTime/never`` needs none.
        case wake(at: BusTime)
        /// A job ended for a reason of the queue.
        case gaveUp(DurableJob, reason: String)
        /// A result came too late: others had the job.
        case refused(JobTicket)
        /// The store fails, or works again (`nil`).
        case storeFails(JobStoreError?)
        /// The worker has become idle, and the caller wants it to end then: see ``idlePeriod``.
        case idle(period: Int)
        /// The worker has ended; the jobs are those whose attempts it cut.
        case ended(cut: [DurableJobID])
    }

    struct Held {
        enum Phase {
            /// Waits until no other job is held.
            case lonely
            /// Waits on the bus.
            case waiting
            /// Waits for the store to record its start.
            case starting
            case running
        }

        let claimed: ClaimedJob
        var phase: Phase
        var isCancelled = false
        var isUnwanted = false

        /// True if it has not asked to start.
        var hasNotAsked: Bool { phase == .lonely || phase == .waiting }
    }

    private let window: Int
    /// The most claimed jobs that wait on the bus, as long as it does not start all of them at once.
    private let firstWaitingLimit: Int
    /// The most claimed jobs that wait on the bus at present.
    private(set) var waitingLimit: Int
    var endsWhenIdle = false
    /// The number of the present period in which the worker is idle; `nil` if it is not, or needs not end then.
    private(set) var idlePeriod: Int?
    private var idlePeriods = 0
    private var kinds: [String: Kind] = [:]
    private(set) var lanes: [Lane] = []
    private(set) var open: Set<KindScope> = []
    /// The times of the last edges; the beginning counts as one.
    private(set) var edges: [KindScope: BusTime] = [:]
    private(set) var began = BusTime.past
    private var nodeOffset: Int64 = 0
    /// The jobs whose payload this worker could not decode, with the ends of their delays.
    private(set) var undecodable: [DurableJobID: BusTime] = [:]
    private(set) var followed: Set<KindScope> = []
    /// The lanes whose jobs could not be claimed for a time: what has gathered there is released in steps.
    private(set) var heldLanes: Set<Lane.ID> = []
    private(set) var backlogs: Set<Gate> = []
    /// The jobs that wait on the bus, by the time since which they do, and some that do not wait any more.
    private(set) var waits: [(since: BusTime, ticket: JobTicket)] = []
    /// The gates whose claimed jobs did not start, and the end of the time in which no more are claimed.
    private(set) var stalled: [Gate: BusTime] = [:]
    /// True if the bus has no room for jobs of an open lane.
    private(set) var lacksRoom = false
    /// The time at which the bus may have more room.
    private(set) var roomAt = BusTime.never
    private(set) var held: [DurableJobID: Held] = [:]
    /// The claims of a lost lease whose tasks have not ended yet.
    private(set) var leaving: Set<JobTicket> = []
    private var cut: [DurableJobID] = []
    private var waitingCount = 0
    /// The jobs that waited on the bus when the last claim began.
    private var waitedAtClaim = 0
    private(set) var worker: WorkerID?
    /// The start of the last successful extension of the lease.
    private(set) var leaseBegan = BusTime.past
    /// The time at which running attempts are cancelled; `nil` before the shutdown, which ends all claims.
    private(set) var drainEnd: BusTime?
    private(set) var hasEnded = false
    private(set) var outbox = StoreBatch.Writes()
    private(set) var batch: StoreBatch?
    private(set) var batchBegan = BusTime.past
    private(set) var wantsClaim = true
    /// True since a hint until the next claim: it may have been a push to a lane that is not known yet.
    private(set) var mayHaveNewLanes = true
    private(set) var hasMore = false
    private(set) var wantsExpiry = true
    private(set) var nextDue = BusTime.never
    private(set) var nextDeadline = BusTime.never
    private(set) var nextPrune = BusTime.past
    private(set) var failures = 0
    private(set) var retryAt = BusTime.past
    private var effects: [Effect] = []
    private(set) var wakeAt = BusTime.never
    /// The store's time less the worker's; `nil` before the store has told it.
    private(set) var offset: Int64?

    /// The time after which a claimed job that has not started is given back.
    private let patience: Duration
    /// The time for which no more of its gate's jobs are claimed then.
    private static let stallTime = Duration.seconds(1)

    init(window: Int = 1000, firstWaitingLimit: Int = 64, patience: Duration = .milliseconds(100)) {
        (self.window, self.firstWaitingLimit, waitingLimit) = (max(1, window), max(1, firstWaitingLimit), max(1, firstWaitingLimit))
        self.patience = patience
    }

    /// Returns the number of jobs that could start on the bus now: in all, and of each lane.
    typealias AskRoom = (_ lanes: [(lane: Lane, isBacklog: Bool)]) -> (places: Room, rooms: [Room])

    mutating func register(_ kind: Kind, name: String) { kinds[name] = kind }

    /// Decides about an event.
    ///
    /// - Parameter room: Asked before a claim.
    mutating func handle(_ event: Event, at now: BusTime, room: AskRoom) -> [Effect] {
        guard !hasEnded else { return [] }
        take(event, at: now)
        cancelOverdue(at: now)
        giveBackWaiting(at: now)
        runLonely(at: now)
        beginBatch(at: now, room)
        endBacklogs()
        noteIdle()
        armTimer(at: now)
        defer { effects = [] }
        return effects
    }

    private mutating func take(_ event: Event, at now: BusTime) {
        switch event {
        case .began(let offset): (began, nodeOffset) = (now, offset)
        case .timer: break
        case .hint:
            (wantsClaim, wantsExpiry, mayHaveNewLanes) = (true, true, true)
            // A store that hints works.
            retryAt = min(retryAt, now)
        case .room: if lacksRoom { wantsClaim = true }
        case .conditions(let kindScope, let isOpen, let isEdge): change(kindScope, isOpen: isOpen, isEdge: isEdge, at: now)
        case .wantsStart(let ticket):
            guard let job = job(ticket), job.phase == .waiting else { return effects.append(.permit(ticket, false)) }
            setPhase(ticket, .starting)
            undecodable[ticket.id] = nil
            if job.isCancelled { effects.append(.permit(ticket, false)) } else { outbox.starts.append(ticket) }
        case .ended(let result):
            guard let job = job(result.ticket) else {
                // The loss of a lease has refused the others.
                if leaving.remove(result.ticket) == nil { effects.append(.refused(result.ticket)) }
                return
            }
            // Its attempt was not permitted to start.
            if job.phase == .starting { return withdraw(result.ticket) }
            remove(result.ticket)
            outbox.results.append(result)
        case .undecodable(let ticket):
            guard let job = job(ticket)?.claimed.job else { return _ = leaving.remove(ticket) }
            remove(ticket)
            let delay = decodingDelay(of: job)
            undecodable[ticket.id] = now + delay
            let outcome = AttemptResult.Outcome.again(soft: delay, isNetwork: false, hard: nil)
            let error = "the payload of version \(job.version) cannot be decoded; next: register a handler that can"
            outbox.results.append(AttemptResult(ticket, outcome, counters: job.counters, error: error, time: storeTime(now)))
        case .withdrawn(let ticket): withdraw(ticket)
        case .batchEnded(let reply): finishBatch(reply, at: now)
        case .shutDown(let end):
            drainEnd = min(drainEnd ?? .never, end)
            for job in held.values where job.hasNotAsked { cancel(job) }
        }
    }

    // MARK: - Held jobs

    private func job(_ ticket: JobTicket) -> Held? {
        guard let job = held[ticket.id], job.claimed.ticket == ticket else { return nil }
        return job
    }

    private mutating func setPhase(_ ticket: JobTicket, _ phase: Held.Phase) {
        guard var job = held[ticket.id] else { return }
        let hasWaited = job.phase == .waiting
        if hasWaited { waitingCount -= 1 }
        if phase == .waiting { waitingCount += 1 }
        job.phase = phase
        held[ticket.id] = job
        if hasWaited, waitingCount * 2 <= waitingLimit, hasMore { wantsClaim = true }
    }

    private mutating func remove(_ ticket: JobTicket) {
        guard let job = held.removeValue(forKey: ticket.id) else { return }
        if job.phase == .waiting { waitingCount -= 1 }
        if job.phase == .starting { outbox.starts.removeAll { $0 == ticket } }
        if hasMore || kinds[job.claimed.job.kind]?.limit != nil { wantsClaim = true }
    }

    private mutating func cancel(_ job: Held) {
        guard !job.isCancelled else { return }
        let ticket = job.claimed.ticket
        if job.phase == .lonely {
            remove(ticket)
            outbox.results.append(.givenBack(ticket))
        } else {
            held[ticket.id]?.isCancelled = true
            if job.phase == .starting { effects.append(.permit(ticket, false)) }
            effects.append(.cancel(ticket))
        }
    }

    private mutating func withdraw(_ ticket: JobTicket) {
        guard let held = job(ticket) else { return _ = leaving.remove(ticket) }
        remove(ticket)
        let (job, isCut) = (held.claimed.job, held.phase == .running)
        var counters = job.counters
        if isCut { counters.started += 1 }
        if isCut, drainEnd != nil, !held.isUnwanted { cut.append(ticket.id) }
        if held.isUnwanted {
            outbox.results.append(AttemptResult(ticket, .cancelled, counters: counters))
        } else if isCut, !job.isRepeatable {
            fail(held.claimed, Crashes.unknownOutcome, counters)
        } else {
            outbox.results.append(.givenBack(ticket))
        }
    }

    /// The time for which a job is left to workers that can decode it: a minute, doubling to an hour.
    private func decodingDelay(of job: DurableJob) -> Duration {
        // The backoff of an attempt is none of these.
        guard undecodable[job.id] != nil, let last = job.softDelay else { return .seconds(60) }
        return min(.seconds(3600), max(.seconds(60), min(last.since.duration(to: last.until), .seconds(3600)) * 2))
    }

    private mutating func fail(_ claimed: ClaimedJob, _ reason: String, _ counters: DurableJob.Counters) {
        outbox.results.append(
            AttemptResult(claimed.ticket, .failed(reason: reason), counters: counters, error: claimed.job.lastError))
        effects.append(.gaveUp(claimed.job, reason: reason))
    }

    /// Runs the first of the jobs that must run alone, when no other job runs.
    ///
    /// Decided last: the event may cancel several of them, or bring jobs that run before them.
    private mutating func runLonely(at now: BusTime) {
        guard leaving.isEmpty, held.values.allSatisfy({ $0.phase == .lonely }),
            let first = held.values.min(by: { $0.claimed.job.position < $1.claimed.job.position })
        else { return }
        run(first.claimed, at: now)
    }

    /// Gives back the jobs that the bus does not start: other workers may, and they stay to be paused or replaced.
    private mutating func giveBackWaiting(at now: BusTime) {
        var count = 0
        for (since, ticket) in waits {
            guard let job = job(ticket), job.phase == .waiting, !job.isCancelled else {
                count += 1
                continue
            }
            guard since + patience <= now else { break }
            count += 1
            stalled[job.claimed.job.gate] = now + Self.stallTime
            (lacksRoom, roomAt) = (true, min(roomAt, now + Self.stallTime))
            cancel(job)
        }
        waits.removeFirst(count)
    }

    private mutating func run(_ claimed: ClaimedJob, at now: BusTime) {
        setPhase(claimed.ticket, .waiting)
        waits.append((now, claimed.ticket))
        effects.append(.run(claimed))
    }

    /// True if a job has to run alone, so that no other is claimed or started.
    private var isReserved: Bool {
        held.values.contains { $0.phase == .lonely || Crashes.runsAlone($0.claimed.job.counters) }
    }

    // MARK: - Network and conditions

    private mutating func change(_ kindScope: KindScope, isOpen: Bool, isEdge: Bool, at now: BusTime) {
        if !isOpen || isEdge { hold(lanes.filter { $0.kindScope == kindScope }) }
        guard isOpen else {
            guard open.remove(kindScope) != nil else { return }
            for job in held.values where job.claimed.job.kindScope == kindScope && job.hasNotAsked { cancel(job) }
            // The next due job may be one of these, for which the worker does not wait.
            if endsWhenIdle { wantsClaim = true }
            return
        }
        if isEdge { edges[kindScope] = now }
        open.insert(kindScope)
        wantsClaim = true
    }

    // MARK: - Backlogs

    private mutating func hold(_ lanes: [Lane]) {
        for lane in lanes where kinds[lane.kind]?.isGated == true { heldLanes.insert(lane.id) }
    }

    /// Tells the gates of backlogs before the first of their jobs run.
    private mutating func noteBacklogs(_ claims: Claims, of request: ClaimRequest) {
        if claims.isPaused {
            hold(lanes)
            for job in held.values where job.hasNotAsked { cancel(job) }
        }
        let asked = Set(request.lanes.map(\.lane))
        defer { if !claims.hasMore, !claims.isPaused { heldLanes.subtract(asked) } }
        let gates = Set(lanes.filter { asked.contains($0.id) && heldLanes.contains($0.id) }.map { $0.gate })
        guard !gates.isEmpty else { return }
        var counts: [Gate: Int] = [:]
        for job in claims.jobs.map(\.job) where kinds[job.kind]?.isGated == true { counts[job.gate, default: 0] += 1 }
        for gate in gates where counts[gate, default: 0] > (claims.hasMore ? 0 : 1) && backlogs.insert(gate).inserted {
            effects.append(.backlog(gate, true))
        }
    }

    /// Tells the gates whose jobs have all been claimed, and are not waiting on the bus, that no backlog is left.
    private mutating func endBacklogs() {
        guard !backlogs.isEmpty, !hasMore || hasEnded else { return }
        let waiting = Set(held.values.filter(\.hasNotAsked).map { $0.claimed.job.gate })
        for gate in hasEnded ? backlogs : backlogs.subtracting(waiting) {
            backlogs.remove(gate)
            effects.append(.backlog(gate, false))
        }
    }

    // MARK: - The lease

    /// Ends all attempts when the drain is over, or the lease could not be extended for too long: others may claim the jobs soon.
    ///
    /// Not before the store was asked: leases stand still while the machine is suspended, and this clock does not.
    private mutating func cancelOverdue(at now: BusTime) {
        let hasAsked = batch != nil || failures > 0
        let isLeaseOld = worker != nil && hasAsked && leaseBegan + StoreLease.surrender <= now
        guard isLeaseOld || drainEnd ?? .never <= now else { return }
        for job in held.values { cancel(job) }
    }

    private mutating func loseLease() {
        worker = nil
        refuse(outbox.results)
        outbox = StoreBatch.Writes()
        for job in held.values {
            drop(job)
            effects.append(.refused(job.claimed.ticket))
        }
        (wantsClaim, wantsExpiry) = (true, true)
        hold(lanes)
    }

    private mutating func refuse(_ results: [AttemptResult]) {
        for result in results where result.outcome != .givenBack { effects.append(.refused(result.ticket)) }
    }

    /// Forgets a job whose claim has ended in the store: with the lease, or because a push has replaced it.
    private mutating func drop(_ job: Held) {
        let ticket = job.claimed.ticket
        remove(ticket)
        if job.phase == .starting { effects.append(.permit(ticket, false)) }
        guard job.phase != .lonely else { return }
        leaving.insert(ticket)
        if !job.isCancelled { effects.append(.cancel(ticket)) }
    }

    // MARK: - Batches

    private mutating func beginBatch(at now: BusTime, _ room: AskRoom) {
        guard batch == nil, retryAt <= now else { return }
        if roomAt <= now { (wantsClaim, roomAt) = (true, .never) }
        if nextDue <= now { (wantsClaim, nextDue) = (true, .never) }
        if nextDeadline <= now { (wantsExpiry, nextDeadline) = (true, .never) }
        var next = StoreBatch()
        guard let worker else {
            guard drainEnd == nil else { return endWorker() }
            next.registers = true
            return start(next, at: now)
        }
        next.worker = worker
        next.writes = outbox
        next.extends = leaseBegan + StoreLease.heartbeat <= now
        next.unregisters = drainEnd != nil && held.isEmpty
        if drainEnd == nil { (next.expires, next.prunes) = (wantsExpiry, nextPrune <= now) }
        if wantsClaim, !next.unregisters {
            next.claim = claimRequest(worker, at: now, room)
            // Claimed when there is room again.
            if next.claim != nil { waitedAtClaim = waitingCount } else { hasMore = true }
        }
        guard next.isNeeded else { return }
        (outbox, wantsClaim, wantsExpiry) = (StoreBatch.Writes(), false, false)
        start(next, at: now)
    }

    private mutating func start(_ next: StoreBatch, at now: BusTime) {
        (batch, batchBegan) = (next, now)
        effects.append(.batch(next))
    }

    private var openLanes: [Lane] {
        lanes.filter { lane in kinds[lane.kind]?.versions.contains(lane.version) == true && open.contains(lane.kindScope) }
    }

    /// Returns the request for the jobs that the bus can start now; `nil` if none may be claimed.
    private mutating func claimRequest(_ worker: WorkerID, at now: BusTime, _ ask: AskRoom) -> ClaimRequest? {
        var request = ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: lanes.last?.id ?? 0)
        stalled = stalled.filter { $0.value > now }
        (lacksRoom, roomAt) = (!stalled.isEmpty, stalled.values.min() ?? .never)
        let most = isReserved ? 0 : min(window - held.count, waitingLimit - waitingCount)
        // While it ends it only reads the requests to cancel.
        let usable = drainEnd == nil && (most > 0 || mayHaveNewLanes) ? openLanes : []
        if !usable.isEmpty {
            let (places, rooms) = ask(usable.map { ($0, heldLanes.contains($0.id)) })
            let (total, isLimited) = addLanes(zip(usable, rooms), to: &request, at: now)
            request.limit = min(most, total)
            // The bus counts only the jobs that run.
            if places.count < .max { request.limit = min(request.limit, places.count - waitingCount) }
            request.limit = max(0, request.limit)
            if isLimited || request.limit == 0 { lacksRoom = true }
            if request.limit == 0 { roomAt = min(roomAt, places.next) }
        }
        // Nothing is read while everything is closed or full, unless there may be new lanes.
        return mayHaveNewLanes || request.limit > 0 && !request.lanes.isEmpty ? request : nil
    }

    /// Adds the lanes with room; returns the room of all gates together, and if a lane has none.
    private mutating func addLanes(
        _ lanes: some Sequence<(Lane, Room)>, to request: inout ClaimRequest, at now: BusTime
    ) -> (total: Int, isLimited: Bool) {
        var counts: [String: Int] = [:]
        if kinds.values.contains(where: { $0.limit != nil }) {
            for job in held.values { counts[job.claimed.job.kind, default: 0] += 1 }
        }
        // The jobs that wait on the bus.
        lazy var waiting = held.values.reduce(into: [Gate: Int]()) { counts, job in
            if job.phase == .waiting { counts[job.claimed.job.gate, default: 0] += 1 }
        }
        var total: [Gate: Int] = [:]
        var isLimited = false
        for (lane, room) in lanes {
            let (gate, kindScope) = (lane.gate, lane.kindScope)
            if room.isStepped { hold([lane]) }
            var count = room.count
            if count < .max { count -= waiting[gate, default: 0] }
            if stalled[gate] != nil { count = 0 }
            guard count > 0 else {
                (isLimited, roomAt) = (true, min(roomAt, room.next))
                continue
            }
            let free = kinds[lane.kind]?.limit.map { $0 - counts[lane.kind, default: 0] } ?? .max
            guard free > 0 else { continue }
            request.lanes.append(.init(lane: lane.id, limit: min(free, count), edge: nodeTime(edges[kindScope] ?? began)))
            // Lanes of one gate share its room.
            total[gate] = count
        }
        return (Int(clamping: total.values.reduce(Int128(0)) { $0 + Int128($1) }), isLimited)
    }

    private mutating func finishBatch(_ reply: StoreBatch.Reply, at now: BusTime) {
        guard let done = batch else { return }
        batch = nil
        if let registered = reply.worker { (worker, leaseBegan) = (registered, batchBegan) }
        if done.extends, !reply.rest.extends { leaseBegan = batchBegan }
        take(reply, of: done, at: now)
        if done.unregisters, !reply.rest.unregisters { endWorker() }
        guard let error = reply.error else {
            if failures > 0 { effects.append(.storeFails(nil)) }
            (failures, retryAt) = (0, .past)
            return
        }
        if error.code == .unknownWorker { return loseLease() }
        keep(reply.rest)
        // Its lease ends by itself; jobs whose results could not be written run again.
        if drainEnd ?? .never <= now, held.isEmpty { return endWorker() }
        if failures == 0 { effects.append(.storeFails(error)) }
        failures += 1
        hold(lanes)
        retryAt = now + min(.seconds(30), .seconds(1) * (1 << min(failures - 1, 5)))
    }

    private mutating func keep(_ rest: StoreBatch) {
        outbox.results = rest.writes.results + outbox.results
        outbox.starts = rest.writes.starts.filter { job($0) != nil } + outbox.starts
        if rest.expires { wantsExpiry = true }
        if rest.claim != nil { wantsClaim = true }
    }

    private mutating func take(_ reply: StoreBatch.Reply, of done: StoreBatch, at now: BusTime) {
        refuse(zip(done.writes.results, reply.results).filter { $1 == .refused }.map(\.0))
        for (ticket, mayStart) in zip(done.writes.starts, reply.starts) {
            guard let job = job(ticket), !job.isCancelled else { continue }
            effects.append(.permit(ticket, mayStart))
            if mayStart { setPhase(ticket, .running) } else { held[ticket.id]?.isCancelled = true }
        }
        for ticket in reply.cancelled {
            guard let job = job(ticket) else { continue }
            held[ticket.id]?.isUnwanted = true
            cancel(held[ticket.id] ?? job)
        }
        let isNew = offset == nil
        // A late answer makes it smaller than it is.
        if let claims = reply.claims { offset = max(offset ?? .min, claims.now.nanoseconds - now.nanoseconds) }
        if let expired = reply.expired {
            for job in expired.jobs { effects.append(.gaveUp(job, reason: "deadline")) }
            nextDeadline = localTime(expired.next)
            if expired.hasMore { wantsExpiry = true }
        }
        if let claims = reply.claims, let request = done.claim { take(claims, of: request, isFirst: isNew, at: now) }
        // It can wait if it has failed.
        if let pruned = reply.pruned { nextPrune = pruned < StoreBatch.pruneBatch ? now + Self.pruneInterval : now }
    }

    private static let pruneInterval = Duration.seconds(600)

    private mutating func take(_ claims: Claims, of request: ClaimRequest, isFirst: Bool, at now: BusTime) {
        for lane in claims.newLanes {
            lanes.append(lane)
            let kindScope = lane.kindScope
            if isFirst || followed.contains(kindScope) && !open.contains(kindScope) { hold([lane]) }
            guard kinds[lane.kind]?.versions.contains(lane.version) == true else { continue }
            if followed.insert(kindScope).inserted { effects.append(.follow(kindScope)) }
            if open.contains(kindScope) { wantsClaim = true }
        }
        if !claims.goneLanes.isEmpty { forget(claims.goneLanes) }
        mayHaveNewLanes = false
        nextDue = localTime(claims.nextDue)
        // Others that can decode it claim it first; after another delay they have had it.
        let near = Duration.milliseconds(10)
        if undecodable.values.contains(where: { $0 < nextDue + near && nextDue < $0 + near }) { nextDue = nextDue + .seconds(1) }
        undecodable = undecodable.filter { now < $0.value + .seconds(3600) }
        // Of lanes without room nothing is known.
        hasMore = claims.hasMore || lacksRoom
        setWaitingLimit(isFull: claims.hasMore && request.limit > 0 && claims.jobs.count >= request.limit)
        noteBacklogs(claims, of: request)
        for claimed in claims.jobs { take(ClaimedJob(claimed), at: claims.now, now) }
        // A request without room was only for new lanes; room that came meanwhile is seen here alone.
        if claims.hasMore, !claims.jobs.isEmpty || request.limit == 0 { wantsClaim = true }
    }

    /// Claims more at a time while the bus starts whatever is claimed: each claim has a cost of its own.
    ///
    /// Jobs that wait here are kept from other workers: when most still wait after a claim, it claims as few as at first.
    private mutating func setWaitingLimit(isFull: Bool) {
        if !isFull || waitingCount * 4 > max(firstWaitingLimit, waitedAtClaim) * 3 {
            waitingLimit = firstWaitingLimit
        } else if waitingCount == 0 {
            waitingLimit = min(waitingLimit * 2, firstWaitingLimit * 8, window)
        }
    }

    /// Forgets lanes that the store has deleted, and the kinds and scopes that no lane has any more.
    private mutating func forget(_ gone: Set<Lane.ID>) {
        lanes.removeAll { gone.contains($0.id) }
        heldLanes.subtract(gone)
        for kindScope in followed.subtracting(lanes.map(\.kindScope)) {
            followed.remove(kindScope)
            open.remove(kindScope)
            edges[kindScope] = nil
            effects.append(.unfollow(kindScope))
        }
    }

    private mutating func take(_ claimed: ClaimedJob, at storeTime: StoreInstant, _ now: BusTime) {
        let job = claimed.job
        let late = job.deadline.map { $0 <= storeTime } == true ? "deadline" : nil
        if let reason = Crashes.reasonToStop(job, maxAttempts: kinds[job.kind]?.maxAttempts) ?? late {
            return fail(claimed, reason, job.counters)
        }
        let isLate = drainEnd != nil || !open.contains(job.kindScope)
        let limit = kinds[job.kind]?.limit ?? .max
        let isOverLimit = limit < .max && held.values.count { $0.claimed.job.kind == job.kind } >= limit
        guard !isLate, !isOverLimit else { return outbox.results.append(.givenBack(claimed.ticket)) }
        if let old = held[job.id] { drop(old) }
        held[job.id] = Held(claimed: claimed, phase: .lonely)
        if !Crashes.runsAlone(job.counters) { run(claimed, at: now) }
    }

    private mutating func noteIdle() {
        guard endsWhenIdle, isIdle != (idlePeriod != nil) else { return }
        guard idlePeriod == nil else { return idlePeriod = nil }
        idlePeriods += 1
        idlePeriod = idlePeriods
        effects.append(.idle(period: idlePeriods))
    }

    /// True if the worker has no job, and no time will come at which it could claim one: what is left waits for a change.
    private var isIdle: Bool {
        guard drainEnd == nil, worker != nil, batch == nil, failures == 0, held.count + leaving.count == 0, outbox.isEmpty,
            !wantsExpiry, !mayHaveNewLanes
        else { return false }
        // A job that cannot be decoded here is due again and again.
        return openLanes.isEmpty || !wantsClaim && !lacksRoom && (nextDue.isNever || !undecodable.isEmpty)
    }

    private mutating func endWorker() {
        hasEnded = true
        endBacklogs()
        effects.append(.ended(cut: cut))
    }

    // MARK: - Outlook

    var outlook: WorkerOutlook {
        var outlook = WorkerOutlook(worker: worker, isEnding: drainEnd != nil, kinds: kinds)
        for job in held.values {
            outlook.held[job.claimed.job.kind, default: 0] += 1
            if job.phase == .lonely { outlook.lonely.insert(job.claimed.job.id) }
        }
        outlook.alone = held.values.first { Crashes.runsAlone($0.claimed.job.counters) }?.claimed.job.id
        outlook.isFull = held.count >= window || waitingCount >= waitingLimit || lacksRoom
        outlook.undecodable = Set(undecodable.keys)
        (outlook.began, outlook.edges) = (nodeTime(began), edges.mapValues(nodeTime))
        return outlook
    }

    // MARK: - Time

    private mutating func armTimer(at now: BusTime) {
        var next = BusTime.never
        func add(_ time: BusTime) { if time > now { next = min(next, time) } }
        if worker != nil {
            add(leaseBegan + StoreLease.heartbeat)
            if !held.isEmpty { add(leaseBegan + StoreLease.surrender) }
        }
        if let drainEnd { add(drainEnd) }
        add(retryAt)
        if let first = waits.first { add(first.since + patience) }
        if batch == nil, retryAt <= now {
            if worker != nil, drainEnd == nil { add(roomAt) }
            if !open.isEmpty { add(nextDue) }
            add(nextDeadline)
            if worker != nil { add(nextPrune) }
        }
        guard wakeAt != next, !hasEnded else { return }
        wakeAt = next
        effects.append(.wake(at: next))
    }

    /// The store's estimate of a time; `nil` before the store has told its time.
    func storeTime(_ time: BusTime) -> StoreInstant? {
        offset.map { StoreInstant(nanoseconds: time.nanoseconds.addingClamped($0)) }
    }

    private func nodeTime(_ time: BusTime) -> Int64 { time.nanoseconds.addingClamped(nodeOffset) }

    /// True if a reconnect came since a job's last failure.
    func hasReconnected(_ job: DurableJob) -> Bool {
        guard let failed = job.softDelay?.since, let edge = edges[job.kindScope].flatMap(storeTime) else { return false }
        return failed < edge
    }

    private func localTime(_ time: StoreInstant?) -> BusTime {
        guard let time, let offset else { return .never }
        return BusTime(nanoseconds: time.nanoseconds.subtractingClamped(offset))
    }
}

extension Lane {
    var kindScope: QueueCore.KindScope { .init(kind: kind, scope: scope) }
    var gate: QueueCore.Gate { .init(scope: scope, destination: destination) }
}

extension DurableJob {
    var kindScope: QueueCore.KindScope { .init(kind: kind, scope: scope) }
    var gate: QueueCore.Gate { .init(scope: scope, destination: destination) }
}
