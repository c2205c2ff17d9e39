#if SQLite
internal import Glibc

extension SQLiteTransaction {
    /// A worker's row.
    struct Worker {
        let (id, queue): (WorkerID, Int64)
        let (node, bootID): (String, String)
        /// The last heartbeat, on CLOCK_MONOTONIC and on the store's clock.
        let (heartbeat, seen): (Int64, StoreInstant)

        static let columns = "number, reachable_workers.queue, node, boot_id, heartbeat, seen"

        /// Reads these columns.
        init(_ row: inout ColumnReader) throws {
            (id, queue, node, bootID) = try (row.next(), row.next(), row.next(), row.next())
            (heartbeat, seen) = try (row.next(), row.next())
        }
    }

    /// The reason why a worker's claims are free.
    enum WorkerEnd {
        /// In good order.
        case unregistered
        /// The process ended while the machine stayed up: attempts that had started have crashed.
        case crashed
        /// The worker was stopped for too long, or the machine rebooted: nothing is counted.
        case leaseEnded
    }

    /// Returns the reason why other workers may take a worker's jobs; `nil` while they may not.
    func end(of worker: Worker) -> WorkerEnd? {
        if worker.bootID != reading.bootID { return .leaseEnded }
        if locks.hasEnded(worker.id.rawValue) { return .crashed }
        return monotonic - worker.heartbeat >= StoreLease.duration.nanoseconds ? .leaseEnded : nil
    }

    /// Returns a worker, unless another one has taken its jobs, its process has ended, or the machine has rebooted.
    ///
    /// A heartbeat may come late.
    func worker(_ id: WorkerID) throws -> Worker? {
        try row("SELECT \(Worker.columns) FROM main.reachable_workers WHERE number = ?", id) { try Worker(&$0) }
            .flatMap { $0.bootID != reading.bootID || locks.hasEnded(id.rawValue) ? nil : $0 }
    }

    /// Adds a worker, whose byte is locked before others can see it.
    mutating func register(queue name: String, node: String) throws -> WorkerID {
        // A byte may be left over from a registration that was not committed.
        var number = nextWorker()
        while !locks.lock(number) { number = nextWorker() }
        try execute(
            "INSERT INTO main.reachable_workers (number, queue, node, boot_id, heartbeat, seen) VALUES (?, ?, ?, ?, ?, ?)",
            number, queue(name), node, reading.bootID, monotonic, now)
        return WorkerID(rawValue: number)
    }

    /// Extends a lease, and frees the claims of workers that have ended; `nil` if it has ended itself.
    mutating func extend(_ id: WorkerID) throws -> WorkerStatus? {
        let isThere = try worker(id) != nil
        try sweep(but: isThere ? id : nil)
        guard isThere else { return nil }
        try execute("UPDATE main.reachable_workers SET heartbeat = ?, seen = ? WHERE number = ?", monotonic, now, id)
        return try status(of: id)
    }

    /// Returns the state of a worker; `nil` if its lease has ended.
    func status(of id: WorkerID) throws -> WorkerStatus? {
        guard try worker(id) != nil else { return nil }
        let sql = "SELECT id, claim FROM main.reachable_jobs WHERE worker = ? AND is_cancel_requested = 1"
        return WorkerStatus(cancelled: try rows(sql, id) { try JobTicket(id: $0.next(), claim: $0.next()) })
    }

    /// Removes a worker that ends in good order.
    mutating func unregister(_ id: WorkerID) throws { try remove(id, .unregistered) }

    /// Frees the claims of other workers that have ended.
    mutating func sweep(but own: WorkerID?) throws {
        for worker in try allWorkers() where worker.id != own {
            if let end = end(of: worker) { try remove(worker.id, end) }
        }
    }

    /// Returns all workers, also those that have ended.
    func allWorkers() throws -> [Worker] {
        try rows("SELECT \(Worker.columns) FROM main.reachable_workers") { try Worker(&$0) }
    }

    private mutating func remove(_ worker: WorkerID, _ end: WorkerEnd) throws {
        guard try execute("DELETE FROM main.reachable_workers WHERE number = ?", worker) > 0 else { return }
        for old in try jobs("worker = ?", worker) {
            var stored = old
            if old.isStarted, end != .unregistered {
                if end == .crashed { stored.job.counters.crashes += 1 }
                stored.job.hasUnknownOutcome = true
            }
            _ = try release(stored, was: old)
        }
    }

    /// Returns the workers of a queue, or of all for `nil`, whose lease is valid.
    func workers(of queue: String?) throws -> [RegisteredWorker] {
        let sql = """
            SELECT \(Worker.columns), name, (SELECT count(*) FROM main.reachable_jobs WHERE worker = number)
            FROM main.reachable_workers JOIN main.reachable_queues ON id = queue WHERE ?1 IS NULL OR name = ?1 ORDER BY number
            """
        return try rows(sql, queue) { row -> RegisteredWorker? in
            let worker = try Worker(&row)
            guard end(of: worker) == nil else { return nil }
            return try RegisteredWorker(
                id: worker.id, queue: row.next(), node: worker.node, host: NodeName.hostName,
                // The kernel does not name the process of another open file description's lock (F_OFD_GETLK, fcntl(2)).
                process: locks.holds(worker.id.rawValue) ? Int(getpid()) : nil, claims: row.next(),
                sinceHeartbeat: max(.zero, worker.seen.duration(to: now)))
        }.compactMap(\.self)
    }
}
#endif
