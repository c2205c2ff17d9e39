#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import HeapModule
internal import ReachableRetry

// The queries name their indexes: an ANALYZE in a database of the caller's must not change what a claim costs.
extension SQLiteTransaction {
    /// The most jobs of a lane whose delays one claim ends, so that it stays short; a next claim follows.
    private static let promotionLimit = 1000

    mutating func claim(_ request: ClaimRequest) throws -> Claims? {
        guard let worker = try worker(request.worker) else { return nil }
        try sweep(but: worker.id)
        let isPaused = try db.value("SELECT is_paused FROM main.reachable_queues WHERE id = ?", worker.queue) ?? false
        let newLanes = try db.rows(
            """
            SELECT id, kind, version, scope, destination FROM main.reachable_lanes NOT INDEXED WHERE id > ? AND queue = ?
            ORDER BY id
            """, request.lastKnownLane, worker.queue
        ) { try Lane(id: $0.next(), kind: $0.next(), version: $0.next(), scope: $0.next(), destination: $0.next()) }
        var claims = Claims(
            jobs: [], newLanes: newLanes, cancelled: try cancelled(of: worker), isPaused: isPaused, hasMore: false, nextDue: nil,
            now: now)
        if isPaused { return claims }
        var sources: [ClaimSource] = []
        var named: Set<Lane.ID> = []
        for lane in request.lanes where named.insert(lane.lane).inserted {
            try open(lane, worker, request.limit, &sources, &claims)
        }
        for position in try merge(sources, limit: request.limit, &claims.hasMore) {
            try db.change(
                "UPDATE main.reachable_jobs SET state = 1, worker = ?, claim = claim + 1 WHERE position = ?", worker.id, position)
            let stored = try wholeJob(position)
            claims.jobs.append(Claims.Claimed(job: stored.job, claim: stored.claim))
        }
        return claims
    }

    /// Ends delays of a lane that have passed, adds its jobs that may run, and notes when the next of the others may.
    private func open(
        _ lane: ClaimRequest.Open, _ worker: Worker, _ limit: Int, _ sources: inout [ClaimSource], _ claims: inout Claims
    ) throws {
        let found = try db.row(
            """
            SELECT hold_until, (SELECT min(due) FROM main.reachable_jobs INDEXED BY reachable_delayed
                WHERE lane = lanes.id AND \(SQLiteSchema.isOpen) AND due IS NOT NULL),
            EXISTS (SELECT 1 FROM main.reachable_jobs INDEXED BY reachable_avoided
                WHERE lane = lanes.id AND \(SQLiteSchema.isOpen) AND avoided_by IS NOT NULL)
            FROM main.reachable_lanes AS lanes WHERE id = ? AND queue = ?
            """, lane.lane, worker.queue
        ) { try (hold: $0.next(StoreInstant?.self), due: $0.next(StoreInstant?.self), isAvoided: $0.next(Bool.self)) }
        guard let found else {
            claims.goneLanes.insert(lane.lane)
            return
        }
        if let due = found.due, due <= now {
            let sql = """
                UPDATE main.reachable_jobs SET due = NULL WHERE position IN (
                    SELECT position FROM main.reachable_jobs INDEXED BY reachable_delayed
                    WHERE lane = ? AND \(SQLiteSchema.isOpen) AND due IS NOT NULL AND due <= ?
                    ORDER BY due LIMIT \(Self.promotionLimit))
                """
            if try db.change(sql, lane.lane, now) == Self.promotionLimit { claims.hasMore = true }
        }
        let source = ClaimSource(
            lane: lane, node: worker.node, bootID: moment.bootID, offset: now.nanoseconds - moment.boot,
            chunk: min(15, max(0, limit)) + 1)
        var heads: [ClaimSource] = []
        for priority in JobPriority.allCases {
            var source = source
            source.priority = priority
            try source.advance(self)
            if source.head != nil { heads.append(source) }
        }
        var next: StoreInstant?
        if found.due != nil || found.isAvoided {
            next = try db.value(ClaimSource.nextStart, now, worker.node, moment.bootID, lane.edge, source.offset, lane.lane)
        }
        if let hold = found.hold, hold > now {
            next = heads.isEmpty ? next.map { max($0, hold) } : hold
        } else {
            sources += heads
        }
        if let next { claims.nextDue = min(claims.nextDue ?? next, next) }
    }

    /// Merges sources by priority and position; sets a flag if they have more than the limits allow.
    private func merge(_ sources: [ClaimSource], limit: Int, _ hasMore: inout Bool) throws -> [Int64] {
        var (sources, positions) = (Heap(sources), [Int64]())
        var taken: [Lane.ID: Int] = [:]
        while var source = sources.popMin(), let head = source.head {
            guard positions.count < limit, taken[source.lane.lane, default: 0] < source.lane.limit else {
                hasMore = true
                continue
            }
            positions.append(head.position)
            taken[source.lane.lane, default: 0] += 1
            try source.advance(self)
            if source.head != nil { sources.insert(source) }
        }
        return positions
    }
}

/// The jobs of a lane with one priority that may run, by position, read a few at a time.
private struct ClaimSource: Comparable {
    let lane: ClaimRequest.Open
    /// The node, its boot, and the store's time less the node's: the parameters ?2, ?3 and ?5 of the queries.
    let (node, bootID, offset): (String, String, Int64)
    var chunk: Int
    var priority = JobPriority.normal
    private(set) var head: (priority: JobPriority, position: Int64)?
    private var rows: ArraySlice<(position: Int64, due: StoreInstant)> = []
    /// The time from which its bulk jobs count as normal ones: the first one decides for those behind it.
    private var ageing = StoreInstant(nanoseconds: .min)

    init(lane: ClaimRequest.Open, node: String, bootID: String, offset: Int64, chunk: Int) {
        (self.lane, self.node, self.bootID, self.offset, self.chunk) = (lane, node, bootID, offset, chunk)
    }

    /// The time from which the node may run a job that nothing else delays; the past if it may now.
    ///
    /// ``DurableJob/handOver`` for another node. ?4 is the last edge of the lane's scope.
    private static let start = """
        CASE WHEN avoided_by IS NULL THEN 0
        WHEN avoided_by <> ?2 THEN soft_since + min(5000000000, 500000000 << min(4, max(0, network_failures - 1)))
        WHEN avoided_boot <> ?3 OR avoided_since < ?4 THEN 0
        ELSE avoided_until + ?5 END
        """

    /// Selects the earliest time at which a job of a lane may run that may not now.
    static let nextStart = """
        SELECT min(start) FROM (
            SELECT (SELECT due FROM main.reachable_jobs INDEXED BY reachable_delayed WHERE lane = ?6 AND \(SQLiteSchema.isOpen)
                AND due IS NOT NULL AND due > ?1 AND avoided_by IS NULL ORDER BY due LIMIT 1) AS start
            UNION ALL SELECT max(ifnull(due, 0), \(start)) FROM main.reachable_jobs INDEXED BY reachable_avoided
            WHERE lane = ?6 AND \(SQLiteSchema.isOpen) AND avoided_by IS NOT NULL
        ) WHERE start > ?1
        """

    private static let next = """
        SELECT position, ifnull(not_before, pushed) FROM main.reachable_jobs INDEXED BY reachable_claimable
        WHERE lane = ?6 AND priority = ?7 AND position > ?8 AND \(SQLiteSchema.isOpen) AND due IS NULL
        AND \(start) <= ?1 ORDER BY position LIMIT ?9
        """

    mutating func advance(_ transaction: SQLiteTransaction) throws {
        if rows.isEmpty, chunk > 0 {
            rows = try transaction.db.rows(
                Self.next, transaction.now, node, bootID, lane.edge, offset, lane.lane, priority, head?.position ?? .min, chunk
            ) { try ($0.next(), $0.next()) }[...]
            chunk = rows.count < chunk ? 0 : min(chunk * 2, 1024)
        }
        head = rows.popFirst().map { row in
            ageing = max(ageing, row.due.advanced(by: DurableJob.ageingTime))
            return (priority == .bulk && ageing <= transaction.now ? .normal : priority, row.position)
        }
    }

    static func < (left: ClaimSource, right: ClaimSource) -> Bool {
        guard let left = left.head, let right = right.head else { return left.head != nil }
        return (right.priority, left.position) < (left.priority, right.position)
    }

    static func == (left: ClaimSource, right: ClaimSource) -> Bool { left.head?.position == right.head?.position }
}
#endif
