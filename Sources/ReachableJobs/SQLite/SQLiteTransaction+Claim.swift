#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import HeapModule
internal import ReachableRetry

// The queries name their indexes: an ANALYZE in a database of the caller's must not change what a claim costs.
extension SQLiteTransaction {
    /// The most jobs of a lane whose delays one claim ends, so that it stays short; a next claim follows.
    static let promotionLimit = 1000

    /// Claims jobs; `nil` if the worker's lease has ended.
    mutating func claim(_ request: ClaimRequest) throws -> Claims? {
        guard let worker = try worker(request.worker) else { return nil }
        try sweep(but: worker.id)
        let isPaused = try value("SELECT is_paused FROM main.reachable_queues WHERE id = ?", worker.queue) ?? false
        let newLanes = try rows(
            """
            SELECT id, kind, version, scope, destination FROM main.reachable_lanes NOT INDEXED WHERE id > ? AND queue = ?
            ORDER BY id
            """, request.lastKnownLane, worker.queue
        ) { try Lane(id: $0.next(), kind: $0.next(), version: $0.next(), scope: $0.next(), destination: $0.next()) }
        var claims = Claims(jobs: [], newLanes: newLanes, isPaused: isPaused, hasMore: false, nextDue: nil, now: now)
        if isPaused { return claims }
        var sources: [ClaimSource] = []
        var named: Set<Lane.ID> = []
        for lane in request.lanes where named.insert(lane.lane).inserted {
            try open(lane, worker, request.limit, &sources, &claims)
        }
        let positions = try merge(sources, limit: max(0, request.limit), &claims.hasMore)
        for position in positions {
            try execute(
                "UPDATE main.reachable_jobs SET state = 1, worker = ?, claim = claim + 1 WHERE position = ?",
                worker.id, position)
            let stored = try wholeJob(position)
            claims.jobs.append(Claims.Claimed(job: stored.job, claim: stored.claim))
        }
        return claims
    }

    /// Ends delays of a lane that have passed, adds its jobs that may run, and notes when the next of the others may.
    private mutating func open(
        _ lane: ClaimRequest.Open, _ worker: Worker, _ limit: Int, _ sources: inout [ClaimSource], _ claims: inout Claims
    ) throws {
        let found = try row(
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
            if try execute(sql, lane.lane, now) == Self.promotionLimit { claims.hasMore = true }
        }
        let node = NodeTimes(node: worker.node, edge: lane.edge, reading: reading, now: now)
        var heads: [ClaimSource] = []
        for priority in JobPriority.allCases {
            var source = ClaimSource(lane: lane, priority: priority, node: node, chunk: min(15, max(0, limit)) + 1)
            if try source.fill(self) { heads.append(source) }
        }
        var next: StoreInstant?
        if found.due != nil || found.isAvoided {
            next = try value(Self.nextStart, now, node.here, node.prefix, node.edge, node.offset, lane.lane)
        }
        if let hold = found.hold, hold > now {
            next = heads.isEmpty ? next.map { max($0, hold) } : hold
        } else {
            sources += heads
        }
        if let next { claims.nextDue = min(claims.nextDue ?? next, next) }
    }

    /// The earliest time at which a job of a lane may run that may not now.
    private static let nextStart = """
        SELECT min(start) FROM (
            SELECT (SELECT due FROM main.reachable_jobs INDEXED BY reachable_delayed WHERE lane = ?6 AND \(SQLiteSchema.isOpen)
                AND due IS NOT NULL AND due > ?1 AND avoided_by IS NULL ORDER BY due LIMIT 1) AS start
            UNION ALL SELECT max(ifnull(due, 0), \(NodeTimes.start)) FROM main.reachable_jobs INDEXED BY reachable_avoided
            WHERE lane = ?6 AND \(SQLiteSchema.isOpen) AND avoided_by IS NOT NULL
        ) WHERE start > ?1
        """

    /// The times that decide whether a node leaves a job alone whose network failed.
    struct NodeTimes {
        /// The text of this boot of the node, and its beginning: the parameters ?2 and ?3.
        let (here, prefix): (String, String)
        /// The last edge of the lane's scope, and the store's time less the node's: the parameters ?4 and ?5.
        let (edge, offset): (Int64, Int64)

        init(node: String, edge: Int64, reading: StoreClock.Reading, now: StoreInstant) {
            (here, prefix) = ("\(node) \(reading.bootID)", node + " ")
            (self.edge, offset) = (edge, now.nanoseconds - reading.boot)
        }

        /// The time from which the node may run a job that nothing else delays; the past if it may now.
        ///
        /// ``DurableJob/handOver`` for another node. An identity of a boot has no space: after another boot, only the node's name
        /// and a space come before it.
        static let start = """
            CASE WHEN avoided_by IS NULL THEN 0
            WHEN avoided_by = ?2 THEN iif(avoided_since < ?4, 0, avoided_until + ?5)
            WHEN substr(avoided_by, 1, length(?3)) = ?3 AND NOT instr(substr(avoided_by, length(?3) + 1), ' ') THEN 0
            ELSE soft_since + min(5000000000, 500000000 << min(4, max(0, network_failures - 1))) END
            """
    }

    // MARK: - Order

    /// The jobs of a lane with one priority that may run, by position, read a few at a time.
    struct ClaimSource {
        let lane: ClaimRequest.Open
        let priority: JobPriority
        let node: NodeTimes
        /// The number of jobs to read next.
        var chunk: Int
        private var rows: ArraySlice<(position: Int64, ageing: StoreInstant)> = []
        private var last = Int64.min
        /// The time from which its bulk jobs count as normal ones: the first one decides for those behind it.
        private var ageing = StoreInstant(nanoseconds: .min)

        init(lane: ClaimRequest.Open, priority: JobPriority, node: NodeTimes, chunk: Int) {
            (self.lane, self.priority, self.node, self.chunk) = (lane, priority, node, chunk)
        }

        static let sql = """
            SELECT position, ifnull(not_before, pushed) FROM main.reachable_jobs INDEXED BY reachable_claimable
            WHERE lane = ?6 AND priority = ?7 AND position > ?8 AND \(SQLiteSchema.isOpen) AND due IS NULL
            AND \(NodeTimes.start) <= ?1 ORDER BY position LIMIT ?9
            """

        /// Reads the next jobs if there are none left; returns false at the end.
        mutating func fill(_ transaction: SQLiteTransaction) throws -> Bool {
            guard rows.isEmpty, chunk > 0 else { return !rows.isEmpty }
            rows = try transaction.rows(
                Self.sql, transaction.now, node.here, node.prefix, node.edge, node.offset, lane.lane, priority, last, chunk
            ) { try ($0.next(), $0.next()) }[...]
            chunk = rows.count < chunk ? 0 : min(chunk * 2, 1024)
            return !rows.isEmpty
        }

        /// Takes the next job.
        mutating func next(_ transaction: SQLiteTransaction, number: Int) throws -> ClaimHead? {
            guard try fill(transaction), let (position, due) = rows.popFirst() else { return nil }
            last = position
            ageing = max(ageing, due.advanced(by: .seconds(3600)))
            let isAged = priority == .bulk && ageing <= transaction.now
            return ClaimHead(priority: isAged ? .normal : priority, position: position, source: number)
        }
    }

    /// The first job of a source.
    struct ClaimHead: Comparable {
        let priority: JobPriority
        let position: Int64
        let source: Int

        static func < (left: ClaimHead, right: ClaimHead) -> Bool {
            (right.priority, left.position) < (left.priority, right.position)
        }
    }

    /// Merges sources by priority and position; sets a flag if they have more than the limits allow.
    private func merge(_ sources: [ClaimSource], limit: Int, _ hasMore: inout Bool) throws -> [Int64] {
        var (sources, heads, positions) = (sources, Heap<ClaimHead>(), [Int64]())
        var taken: [Lane.ID: Int] = [:]
        for number in sources.indices {
            if let head = try sources[number].next(self, number: number) { heads.insert(head) }
        }
        while let head = heads.popMin() {
            let lane = sources[head.source].lane
            guard positions.count < limit, taken[lane.lane, default: 0] < lane.limit else {
                hasMore = true
                continue
            }
            positions.append(head.position)
            taken[lane.lane, default: 0] += 1
            if let next = try sources[head.source].next(self, number: head.source) { heads.insert(next) }
        }
        return positions
    }
}
#endif
