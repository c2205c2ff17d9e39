#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import ReachableRetry

extension SQLiteTransaction {
    /// Adds jobs; all of them, or throws.
    mutating func push(_ jobs: [NewJob], limit: Int?) throws -> [PushReceipt] {
        for job in jobs where job.payload.count > largestPayload {
            throw JobStoreError(
                .tooLarge, "the payload of a job of kind \(job.kind) has \(job.payload.count) bytes, more than 1 MiB",
                next: "store it in a file, and push the file's name")
        }
        var added: [String: Int] = [:]
        var receipts: [PushReceipt] = []
        receipts.reserveCapacity(jobs.count)
        for job in jobs {
            let queue = try queue(job.queue)
            let receipt = try push(job, queue: queue)
            if receipt.outcome == .added || receipt.outcome == .appended { added[job.queue, default: 0] += 1 }
            receipts.append(receipt)
        }
        for (name, number) in added {
            let unfinished = try addUnfinished(number, queue: queue(name))
            guard let limit, unfinished > limit else { continue }
            throw JobStoreError(
                .full, "the queue \(name) would have more than \(limit) unfinished jobs", next: "push later, or raise the limit")
        }
        wakesWorkers = true
        return receipts
    }

    private mutating func push(_ job: NewJob, queue: Int64) throws -> PushReceipt {
        var job = job
        job.kind = StoredText.stored(job.kind)
        job.scope = StoredText.stored(job.scope)
        job.destination = job.destination.map(StoredText.stored)
        job.serialKey = job.serialKey.map(StoredText.stored)
        job.idempotencyKey = StoredText.stored(job.idempotencyKey)
        guard let unique = job.unique else { return try insert(job, queue: queue, isFollower: false) }
        // A push that is repeated, because its first answer was lost, changes nothing.
        if try exists("SELECT 1 FROM reachable_jobs WHERE id = ?", job.id.description) {
            return PushReceipt(id: job.id, outcome: .kept)
        }
        let found = try row(
            """
            SELECT position, id, state, started, lane FROM reachable_jobs
            WHERE queue = ? AND kind = ? AND unique_key = ? AND \(SQLiteSchema.holdsUnique) ORDER BY position DESC LIMIT 1
            """, queue, job.kind, StoredText.stored(unique.key))
        guard let found else { return try insert(job, queue: queue, isFollower: false) }
        let id: String = found[1]
        guard let id = DurableJobID(id) else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        switch unique {
        case .keep:
            return PushReceipt(id: id, outcome: .kept)
        case .append:
            return try insert(job, queue: queue, isFollower: true)
        case .replace:
            let hasStarted = (found[2] as Int64) != 0 || (found[3] as Int64) != 0
            if hasStarted { return try insert(job, queue: queue, isFollower: true) }
            try replace(position: found[0], lane: found[4], with: job, queue: queue)
            return PushReceipt(id: id, outcome: .replaced)
        }
    }

    /// Returns the statements of a new job, which a batch looks up once.
    private mutating func inserts() throws -> (Statement, Statement) {
        if let insertStatements { return insertStatements }
        let job = try db.cachedStatement(
            sql: """
                INSERT INTO reachable_jobs (position, id, queue, lane, kind, priority, rank, outage, due, age, is_blocked,
                not_before, deadline, unique_key, serial_key, continues, is_repeatable, idempotency_key, trace, created)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
                """)
        let payload = try db.cachedStatement(sql: "INSERT INTO reachable_payloads (position, payload) VALUES (?, ?)")
        insertStatements = (job, payload)
        return (job, payload)
    }

    /// Adds a job behind all others.
    private mutating func insert(_ job: NewJob, queue: Int64, isFollower: Bool) throws -> PushReceipt {
        let lane = try lane(
            LaneKey(queue: queue, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination))
        var isBlocked = isFollower
        if !isBlocked, let serial = job.serialKey {
            isBlocked = try exists(
                "SELECT 1 FROM reachable_jobs WHERE queue = ? AND serial_key = ? AND \(SQLiteSchema.holdsSerial) LIMIT 1",
                queue, serial)
        }
        let position = nextPosition()
        let id = job.id.description
        let notBefore = job.delay.map { now.advanced(by: $0).nanoseconds }
        let isDelayed = notBefore.map { $0 > now.nanoseconds } ?? false
        let rank = 2 - job.priority.rawValue
        let outage: Int64? = isBlocked || isDelayed ? nil : 0
        let (insert, insertPayload) = try inserts()
        try insert.bind(
            position, id, queue, lane, job.kind, job.priority.rawValue, rank, outage,
            !isBlocked && isDelayed ? notBefore : nil, rank == 2 && outage != nil ? try laneClock(lane) : 0, isBlocked,
            notBefore, job.timeLimit.map { now.advanced(by: $0).nanoseconds }, (job.unique?.key).map(StoredText.stored),
            job.serialKey, job.continuesAfterFailure, job.isRepeatable, job.idempotencyKey == id ? nil : job.idempotencyKey,
            StoredText.text(of: job.traceContext), reading.wall)
        try insert.execute()
        guard db.changesCount > 0 else { return PushReceipt(id: job.id, outcome: .kept) }
        try insertPayload.bind(position, job.payload)
        try insertPayload.execute()
        addJobs(1, lane: lane)
        return PushReceipt(id: job.id, outcome: isFollower ? .appended : .added)
    }

    /// Replaces the payload, lane and times of a job that has not started.
    private mutating func replace(position: Int64, lane old: Int64, with job: NewJob, queue: Int64) throws {
        let lane = try lane(
            LaneKey(queue: queue, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination))
        try execute("UPDATE reachable_payloads SET payload = ? WHERE position = ?", job.payload, position)
        // Its age counts on the clock of its lane: leave the old one's.
        try execute(
            """
            UPDATE reachable_jobs SET age = iif(rank = 2 AND outage IS 0, ?1 - age, age), outage = NULL, due = NULL,
            undecodable = NULL, lane = ?2,
            not_before = ?3, deadline = ?4, idempotency_key = ?5, trace = ?6 WHERE position = ?7
            """,
            laneClock(old), lane, job.delay.map { now.advanced(by: $0).nanoseconds },
            job.timeLimit.map { now.advanced(by: $0).nanoseconds }, job.idempotencyKey,
            StoredText.text(of: job.traceContext), position)
        addJobs(-1, lane: old)
        addJobs(1, lane: lane)
        try schedule(position, lane: lane)
    }
}
#endif
