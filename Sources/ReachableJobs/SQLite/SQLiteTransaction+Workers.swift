#if SQLite
internal import GRDB
internal import Glibc
internal import Reachability

extension SQLiteTransaction {
    /// A worker's row.
    struct Worker {
        var number: Int64
        var queue: Int64
        var node: String
        var bootID: String
        var heartbeat: Int64
        var seen: Int64

        static let columns = "number, queue, node, boot_id, heartbeat, seen"

        init(_ row: SQLiteRow) { (number, queue, node, bootID, heartbeat, seen) = (row[0], row[1], row[2], row[3], row[4], row[5]) }
    }

    /// The state of a worker's lease.
    enum Lease: Equatable {
        case valid
        /// The process ended while the machine stayed up: attempts that had started have crashed.
        case crashed
        /// The worker was stopped for too long, or the machine rebooted: the outcome of its attempts is unknown, and nothing is
        /// counted.
        case ended
    }

    /// Returns the state of a worker's lease.
    func lease(of worker: Worker) -> Lease {
        if worker.bootID != reading.bootID { return .ended }
        if locks.hasEnded(worker.number) { return .crashed }
        return monotonic - worker.heartbeat >= StoreLease.duration.nanoseconds ? .ended : .valid
    }

    /// Returns a worker if its lease is valid.
    func validWorker(_ worker: WorkerID) throws -> Worker? {
        let found = try row("SELECT \(Worker.columns) FROM reachable_workers WHERE number = ?", worker.rawValue)
        return found.map(Worker.init).flatMap { lease(of: $0) == .valid ? $0 : nil }
    }

    /// Returns the workers of a queue, or of all for `nil`, whose lease is valid.
    ///
    /// Only reads.
    func workers(of queue: String?) throws -> [RegisteredWorker] {
        let sql = """
            SELECT \(Worker.columns), reachable_queues.name,
            (SELECT count(*) FROM reachable_jobs WHERE worker = reachable_workers.number)
            FROM reachable_workers JOIN reachable_queues ON reachable_queues.id = queue ORDER BY number
            """
        let host = NodeName.hostName
        return try rows(sql).compactMap { row in
            let (worker, name) = (Worker(row), StoredText.loaded(row[6]))
            guard queue == nil || queue == name, lease(of: worker) == .valid else { return nil }
            return RegisteredWorker(
                id: WorkerID(rawValue: worker.number), queue: name, node: StoredText.loaded(worker.node), host: host,
                // The kernel does not name the process of another open file description's lock (F_OFD_GETLK, fcntl(2)).
                process: locks.holds(worker.number) ? Int(getpid()) : nil, claims: row[7],
                sinceHeartbeat: .nanoseconds(max(0, now.nanoseconds - worker.seen)))
        }
    }

    /// Adds a worker, whose byte is locked before others can see it.
    mutating func register(queue name: String, node: String) throws -> WorkerID {
        let queue = try queue(name)
        // A byte may be left over from a registration that was not committed.
        var number = nextWorker()
        while !locks.lock(number) { number = nextWorker() }
        try execute(
            "INSERT INTO reachable_workers (\(Worker.columns)) VALUES (?, ?, ?, ?, ?, ?)",
            number, queue, StoredText.stored(node), reading.bootID, monotonic, now.nanoseconds)
        return WorkerID(rawValue: number)
    }

    /// Extends a lease; `nil` if it has ended.
    mutating func extend(_ worker: WorkerID) throws -> WorkerStatus? {
        guard let found = try validWorker(worker) else {
            try sweep(but: nil)
            return nil
        }
        try execute(
            "UPDATE reachable_workers SET heartbeat = ?, seen = ? WHERE number = ?", monotonic, now.nanoseconds, found.number)
        // No write tells idle workers of the end of another process.
        try sweep(but: found.number)
        return try status(of: worker)
    }

    /// Returns the state of a worker; `nil` if its lease has ended.
    func status(of worker: WorkerID) throws -> WorkerStatus? {
        guard let found = try validWorker(worker) else { return nil }
        let cancelled = try rows(
            "SELECT id, claim FROM reachable_jobs WHERE worker = ? AND is_cancel_requested", found.number)
        return WorkerStatus(
            cancelled: cancelled.compactMap { row in DurableJobID(row[0] as String).map { JobTicket(id: $0, claim: row[1]) } })
    }

    /// Removes a worker that ends in good order.
    mutating func unregister(_ worker: WorkerID) throws {
        let found = try row("SELECT \(Worker.columns) FROM reachable_workers WHERE number = ?", worker.rawValue)
        guard let found = found.map(Worker.init) else { return }
        try remove(found, .givenBack)
    }

    /// Frees the claims of workers that have ended.
    mutating func sweep(but own: Int64?) throws {
        for worker in try rows("SELECT \(Worker.columns) FROM reachable_workers").map(Worker.init) where worker.number != own {
            let lease = lease(of: worker)
            guard lease != .valid else { continue }
            try remove(worker, lease == .crashed ? .crashed : .ended)
        }
    }

    /// The reason why a claim ends without a result.
    enum Release {
        /// The worker gave it back: attempts that have started stay counted.
        case givenBack
        /// See ``Lease/crashed``.
        case crashed
        /// See ``Lease/ended``.
        case ended
    }

    private mutating func remove(_ worker: Worker, _ release: Release) throws {
        try execute("DELETE FROM reachable_workers WHERE number = ?", worker.number)
        try execute(
            """
            UPDATE reachable_lanes SET open_time = open_time + max(0, ?1 - open_since), open_since = NULL, open_by = NULL
            WHERE open_by = ?2
            """, release == .givenBack ? now.nanoseconds : worker.seen, worker.number)
        for row in try rows("SELECT \(Keys.columns) FROM reachable_jobs WHERE worker = ?", worker.number) {
            try free(Keys(row), release)
        }
    }

    /// Makes a running job available again, or ends it if its cancellation was requested: then it returns false.
    @discardableResult
    mutating func free(_ keys: Keys, _ release: Release) throws -> Bool {
        try execute(
            """
            UPDATE reachable_jobs SET state = iif(is_cancel_requested, 4, 0), worker = NULL, is_started = 0,
            is_cancel_requested = 0, crashes = crashes + iif(?1, is_started, 0),
            has_unknown_outcome = has_unknown_outcome OR is_started AND ?2,
            ended = iif(is_cancel_requested, ?3, NULL), finished = iif(is_cancel_requested, ?4, NULL) WHERE position = ?5
            """, release == .crashed, release != .givenBack, now.nanoseconds, reading.wall, keys.position)
        let isAvailable = try exists("SELECT 1 FROM reachable_jobs WHERE position = ? AND state = 0", keys.position)
        if isAvailable { try schedule(keys.position, lane: keys.lane) } else { try addUnfinished(-1, queue: keys.queue) }
        try settle(keys)
        wakesWorkers = true
        return isAvailable
    }
}
#endif
