import ReachableRetry

@testable import ReachableJobs

/// A fingerprint that is equal for states with the same future.
///
/// Workers and stores hold absolute times and growing numbers. The fingerprint replaces a time by its distance from now, up to
/// the distance that matters, and a claim or a worker's number by the place where it counts. It does not distinguish workers. It
/// leaves out facts that only people read, and the next deletion of ended jobs, 10 minutes away.
struct QueueFingerprint: Hashable {
    private var bytes: [UInt8]

    /// - Parameter prefix: The part of the state outside of the world.
    init(_ world: QueueWorld, after prefix: [UInt8]) {
        bytes = prefix
        bytes.reserveCapacity(160)
        var jobs = Writer(world)
        jobs.writeJobs()
        bytes += jobs.bytes
        let workers = world.workers.map { worker in
            var writer = Writer(world)
            writer.write(worker)
            return writer.bytes
        }
        for worker in workers.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            bytes.append(UInt8(worker.count))
            bytes += worker
        }
    }

    private struct Writer {
        private static let second: Int64 = 1_000_000_000
        /// The length of the delays after failed attempts in seconds: older edges and results are equal.
        private static let delay: UInt8 = 5

        let world: QueueWorld
        /// The claims that a worker knows; a claim is written as its place among them.
        private var tickets: [JobTicket] = []
        private(set) var bytes: [UInt8] = []

        init(_ world: QueueWorld) {
            self.world = world
            bytes.reserveCapacity(80)
        }

        // MARK: - Values

        private mutating func flags(_ flags: Bool...) {
            bytes.append(flags.reduce(0) { $0 << 1 | ($1 ? 1 : 0) })
        }

        private mutating func number(_ number: Int) { bytes.append(UInt8(clamping: number)) }

        private mutating func seconds(_ nanoseconds: Int64, most: UInt8) {
            precondition(nanoseconds % Self.second == 0, "times are whole seconds here")
            bytes.append(min(most, UInt8(clamping: nanoseconds / Self.second)))
        }

        /// Writes the time until an event; events of the past are equal.
        private mutating func left(_ time: Int64, from now: Int64) {
            if time == .max { return bytes.append(255) }
            if time <= now { return bytes.append(0) }
            seconds(time - now, most: 250)
        }

        private mutating func left(_ time: BusTime) { left(time.nanoseconds, from: world.now) }

        /// Writes the time since an event; events are equal from an age on.
        private mutating func age(_ time: Int64?, at now: Int64, most: UInt8) {
            guard let time else { return bytes.append(255) }
            let (age, overflow) = now.subtractingReportingOverflow(time)
            if overflow || age >= Int64(most) * Self.second { return bytes.append(most) }
            seconds(age, most: most)
        }

        private mutating func age(_ time: BusTime, most: Duration) {
            age(time.nanoseconds, at: world.now, most: UInt8(most.components.seconds))
        }

        private mutating func age(_ time: StoreInstant?) {
            age(time?.nanoseconds, at: world.store.now.nanoseconds, most: Self.delay)
        }

        /// Writes the crashes of a job; from the third on it runs alone.
        private mutating func crashes(_ counters: DurableJob.Counters) { number(min(counters.crashes, 3)) }

        private func place(_ ticket: JobTicket) -> Int { tickets.firstIndex(of: ticket) ?? 254 }

        private mutating func ticket(_ ticket: JobTicket) { number(place(ticket)) }

        /// Writes claims whose order does not matter.
        private mutating func tickets(_ claims: some Sequence<JobTicket>) {
            let places = claims.map(place).sorted()
            number(places.count)
            for place in places { number(place) }
        }

        // MARK: - The store

        mutating func writeJobs() {
            // Of the clock only the wall clock's error counts, when the machine reboots.
            let reading = world.reading
            flags(
                world.store.hint, world.clock.newestWall > reading.wall,
                StoreClock(reading).newestWall == 0)
            for id in world.ids {
                guard let row = world.row(id) else {
                    bytes.append(254)
                    continue
                }
                let job = row.job
                number(DurableJob.State.allCases.firstIndex(of: job.state) ?? 0)
                number(min(world.done[id] ?? 0, 2))
                let counters = job.counters
                number(counters.crashes - (world.crashes[id] ?? 0) + 128)
                if !job.isRepeatable {
                    flags(job.hasUnknownOutcome, world.hasUnresolvedRun(id), world.mayHaveRun(id))
                }
                guard !job.state.isFinal else { continue }
                flags(
                    job.isCancelRequested, world.cancelled.contains(id),
                    job.avoidance.map { $0.bootID != world.store.bootID } ?? false,
                    // Its worker writes the rest.
                    row.worker.map { world.store.workers[$0] == nil } ?? false)
                crashes(counters)
                let soft = job.softDelay
                left(soft?.until.nanoseconds ?? .min, from: world.store.now.nanoseconds)
                if let soft, soft.until > world.store.now {
                    flags(soft.isNetwork)
                    age(soft.since)
                }
            }
        }

        /// Writes the claims of a worker and its lease.
        private mutating func writeLease(of worker: QueueWorld.Worker) {
            guard let id = worker.id, let record = world.store.workers[id] else { return bytes.append(255) }
            left(record.leaseEnd.nanoseconds, from: world.now - world.suspended)
            for (index, id) in world.ids.enumerated() {
                guard let row = world.row(id), row.worker == worker.id else { continue }
                number(index)
                flags(row.isStarted, world.started[JobTicket(id: id, claim: row.claim)] == worker.id)
            }
            bytes.append(255)
        }

        // MARK: - Workers

        mutating func write(_ worker: QueueWorld.Worker) {
            flags(
                worker.hasEnded, worker.isOpen, worker.isStopped, worker.hasHint, worker.isShuttingDown, worker.isFailing,
                worker.batch != nil, worker.followed.isEmpty)
            writeLease(of: worker)
            guard !worker.hasEnded else { return }
            collectTickets(of: worker)
            for ticket in tickets {
                number(world.ids.firstIndex(of: ticket.id) ?? 254)
                flags(world.isValid(ticket), world.isUnderLease(ticket), world.refused.contains(ticket))
            }
            for (ticket, task) in worker.tasks.sorted(by: { place($0.key) < place($1.key) }) {
                self.ticket(ticket)
                flags(task.isCancelled, task.stage == .waiting, task.stage == .asking)
                crashes(task.claimed.job.counters)
            }
            left(worker.wakeAt)
            age(worker.edge)
            write(worker.core, awaitsRoom: worker.awaitsRoom)
        }

        private mutating func collectTickets(of worker: QueueWorld.Worker) {
            var known = Set(worker.tasks.keys)
            known.formUnion(worker.core.held.values.map(\.claimed.ticket))
            known.formUnion(worker.core.leaving)
            for writes in [worker.core.outbox, worker.core.batch?.writes].compactMap(\.self) {
                known.formUnion(writes.results.map(\.ticket) + writes.starts)
            }
            let ids = world.ids
            tickets = known.sorted {
                (ids.firstIndex(of: $0.id) ?? 0, $0.claim) < (ids.firstIndex(of: $1.id) ?? 0, $1.claim)
            }
            number(tickets.count)
            number(worker.tasks.count)
        }

        private mutating func write(_ core: QueueCore, awaitsRoom: Bool) {
            flags(
                core.wantsClaim, core.mayHaveNewLanes, core.hasMore, core.wantsExpiry, core.open.isEmpty,
                core.offset == nil, core.nextPrune <= BusTime(nanoseconds: world.now))
            if core.hasEnded { bytes.append(253) } else if let end = core.drainEnd { left(end) } else { bytes.append(254) }
            for held in core.held.values.sorted(by: { $0.claimed.job.position < $1.claimed.job.position }) {
                ticket(held.claimed.ticket)
                flags(
                    held.isCancelled, held.isUnwanted, held.phase == .lonely, held.phase == .waiting, held.phase == .starting)
                crashes(held.claimed.job.counters)
            }
            bytes.append(255)
            for wait in core.waits where core.held[wait.ticket.id]?.phase == .waiting {
                ticket(wait.ticket)
                age(wait.since, most: .seconds(1))
            }
            flags(core.lacksRoom, core.heldLanes.isEmpty, core.backlogs.isEmpty, awaitsRoom)
            left(core.roomAt)
            left(core.stalled.values.max() ?? .past)
            tickets(core.leaving)
            number(core.lanes.count)
            age((core.edges.values.first ?? core.began).nanoseconds, at: world.now, most: Self.delay)
            number(min(core.failures, 6))
            for time in [core.nextDue, core.nextDeadline, core.retryAt, core.wakeAt] { left(time) }
            // Not read again without a lease.
            if core.worker == nil { bytes.append(255) } else { age(core.leaseBegan, most: StoreLease.surrender) }
            write(core.outbox)
            if let batch = core.batch { write(batch, since: core.batchBegan) }
        }

        private mutating func write(_ batch: StoreBatch, since began: BusTime) {
            flags(
                batch.registers, batch.worker == nil, batch.extends, batch.expires, batch.prunes, batch.unregisters,
                batch.claim != nil)
            // The start of the next lease.
            if batch.registers || batch.extends { age(began, most: StoreLease.surrender) }
            write(batch.writes)
            guard let claim = batch.claim else { return }
            number(claim.limit)
            number(claim.lanes.count)
            number(Int(claim.lastKnownLane))
            age(claim.lanes.first?.edge, at: world.reading.boot, most: Self.delay)
        }

        private mutating func write(_ writes: StoreBatch.Writes) {
            number(writes.results.count)
            for result in writes.results.sorted(by: { place($0.ticket) < place($1.ticket) }) {
                ticket(result.ticket)
                switch result.outcome {
                case .succeeded: bytes.append(250)
                case .failed: bytes.append(251)
                case .cancelled: bytes.append(252)
                case .again: age(result.time)
                case .givenBack: bytes.append(253)
                }
            }
            tickets(writes.starts)
        }
    }
}
