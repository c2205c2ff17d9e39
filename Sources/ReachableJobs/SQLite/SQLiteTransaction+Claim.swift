#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import Reachability

// The queries name their indexes: an ANALYZE in a database of the caller's must not change what a claim costs.
extension SQLiteTransaction {
    /// The most jobs of a lane that one claim looks at when their delays end, per priority.
    ///
    /// So a claim stays short, however many delays end at once; jobs beyond it follow with the next claim.
    static let promotionLimit = 1000

    /// Claims jobs; `nil` if the worker's lease has ended.
    mutating func claim(_ request: ClaimRequest) throws -> Claims? {
        guard let worker = try validWorker(request.worker) else { return nil }
        try sweep(but: worker.number)
        let found = try row("SELECT name, is_paused FROM reachable_queues WHERE id = ?", worker.queue)
        guard let found else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        let newLanes = try rows(
            "SELECT id, kind, version, scope, destination FROM reachable_lanes NOT INDEXED WHERE id > ? AND queue = ? ORDER BY id",
            request.lastKnownLane, worker.queue
        ).map { SQLiteRows.lane($0, from: 0) }
        var claims = Claims(jobs: [], newLanes: newLanes, isPaused: found[1], hasMore: false, nextDue: nil, now: now)
        let lanes = try claims.isPaused ? [] : openLanes(request.lanes, by: worker, &claims.goneLanes)
        var sources: [ClaimSource] = []
        for lane in lanes {
            let groups = try groups(of: lane, for: worker)
            if lane.holdUntil == nil {
                try promote(lane, groups, &claims)
                try lift(lane)
                sources += lane.sources(groups, limit: request.limit)
            }
            try findNextDue(of: lane, groups, &claims)
        }
        let (picks, isCut) = try pick(sources, limit: request.limit)
        if isCut { claims.hasMore = true }
        for pick in picks { claims.jobs.append(try take(pick, lanes[pick.lane], worker, queue: StoredText.loaded(found[0]))) }
        return claims
    }

    // MARK: Lanes

    /// A lane that a claim names.
    struct OpenLane {
        var lane: Lane
        var index: Int
        var limit: Int
        var edge: Int64?
        /// The end of a server's order, if it is in the future.
        var holdUntil: Int64?
        var clock: SQLiteLaneClock

        /// The sources of its jobs: those that are ready, and the groups of delays that do not bind this worker.
        func sources(_ groups: [OutageGroup], limit: Int) -> [ClaimSource] {
            let limit = min(limit, self.limit)
            let voided = groups.filter { $0.binding == .voided || $0.binding == .voidedBefore }
            return [ClaimSource(lane: self, group: 0, edge: nil, limit: limit)]
                + voided.map { group in
                    let edge = group.binding == .voidedBefore ? self.edge : nil
                    return ClaimSource(lane: self, group: group.number, edge: edge, limit: limit)
                }
        }
    }

    /// Reads the lanes that a claim names, and keeps account of the time for which lanes are open.
    private func openLanes(
        _ requested: [ClaimRequest.Open], by worker: Worker, _ gone: inout Set<Lane.ID>
    ) throws -> [OpenLane] {
        var lanes: [OpenLane] = []
        var open: Set<Int64> = []
        var named: Set<Lane.ID> = []
        for request in requested where named.insert(request.lane).inserted {
            let found = try row(
                """
                SELECT id, kind, version, scope, destination, hold_until, open_time, open_since, open_by FROM reachable_lanes
                WHERE id = ? AND queue = ?
                """, request.lane, worker.queue)
            guard let found else {
                gone.insert(request.lane)
                continue
            }
            let hold = (found[5] as Int64?).flatMap { $0 > now.nanoseconds ? $0 : nil }
            var lane = OpenLane(
                lane: SQLiteRows.lane(found, from: 0),
                index: lanes.count, limit: request.limit, edge: request.edge?.nanoseconds, holdUntil: hold,
                clock: SQLiteLaneClock(openTime: found[6], openSince: found[7], openBy: found[8]))
            if hold == nil {
                open.insert(lane.lane.id)
                if lane.clock.openBy == nil {
                    (lane.clock.openBy, lane.clock.openSince) = (worker.number, now.nanoseconds)
                    try execute(
                        "UPDATE reachable_lanes SET open_since = ?, open_by = ? WHERE id = ?",
                        now.nanoseconds, worker.number, lane.lane.id)
                }
            }
            lanes.append(lane)
        }
        for row in try rows("SELECT id FROM reachable_lanes WHERE open_by = ?", worker.number) where !open.contains(row[0]) {
            try execute(
                """
                UPDATE reachable_lanes SET open_time = open_time + max(0, ?1 - open_since), open_since = NULL, open_by = NULL
                WHERE id = ?2
                """, now.nanoseconds, row[0] as Int64)
        }
        return lanes
    }

    /// Makes normal jobs of bulk ones that were runnable for an hour.
    private func lift(_ lane: OpenLane) throws {
        let oldest = lane.clock.reading(at: now) - SQLiteLaneClock.age
        guard oldest >= 0 else { return }
        try execute(
            """
            UPDATE reachable_jobs SET rank = 1, age = 0 WHERE position IN (SELECT position FROM reachable_jobs
            INDEXED BY reachable_bulk WHERE lane = ? AND rank = 2 AND outage = 0 AND age <= ?
            ORDER BY age LIMIT \(Self.promotionLimit))
            """, lane.lane.id, oldest)
    }

    // MARK: Delays

    /// A group of jobs that only some workers may claim: of delays after network failures, or with undecodable payloads.
    struct OutageGroup {
        enum Binding: Equatable {
            /// No reconnect came after its failures.
            case binds
            /// A reconnect came after some of its failures.
            case voidedBefore
            /// It binds another node or other workers only.
            case voided
            /// This worker cannot decode the jobs.
            case withheld
        }

        var number: Int64
        var binding: Binding
        /// The time of its last failure.
        var last: Int64
    }

    /// Reads the groups of a lane; closes those that this claim's reconnect ended, and deletes those whose delays are all over.
    private func groups(of lane: OpenLane, for worker: Worker) throws -> [OutageGroup] {
        let sql = "SELECT number, node, first, last, last_until, is_closed, workers FROM reachable_outages WHERE lane = ?"
        var groups: [OutageGroup] = []
        for row in try rows(sql, lane.lane.id) {
            var group = OutageGroup(number: row[0], binding: .binds, last: row[3])
            if let workers = row[6] as String?, Self.numbers(workers).contains(worker.number) {
                group.binding = .withheld
            } else if row[2] as Int64? == nil {
                group.binding = .voided
            } else if let owner = row[1] as String?, owner != worker.node {
                group.binding = .voided
            } else if let edge = lane.edge, row[2] <= edge {
                group.binding = .voidedBefore
                if !(row[5] as Bool) {
                    try execute(
                        "UPDATE reachable_outages SET is_closed = 1 WHERE lane = ? AND number = ?", lane.lane.id, group.number)
                }
            }
            groups.append(group)
            guard row[5], row[4] <= now.nanoseconds else { continue }
            try execute(
                """
                DELETE FROM reachable_outages WHERE lane = ?1 AND number = ?2
                AND NOT EXISTS (SELECT 1 FROM reachable_jobs WHERE lane = ?1 AND outage = ?2)
                AND NOT EXISTS (SELECT 1 FROM reachable_jobs
                    WHERE lane = ?1 AND undecodable = ?2 AND undecodable IS NOT NULL AND state < 2)
                """, lane.lane.id, group.number)
        }
        return groups
    }

    /// Makes jobs ready whose delays are over.
    private func promote(_ lane: OpenLane, _ groups: [OutageGroup], _ claims: inout Claims) throws {
        let (id, clock) = (lane.lane.id, lane.clock.reading(at: now))
        if try hasDelayed(lane) {
            for rank in 0...2 {
                let sql = """
                    \(SQLiteSchema.schedule) WHERE position IN (SELECT position FROM reachable_jobs
                    INDEXED BY reachable_delayed WHERE lane = ?3 AND rank = ?4 AND due <= ?1 AND outage IS NULL
                    ORDER BY due LIMIT \(Self.promotionLimit))
                    """
                if try execute(sql, now.nanoseconds, clock, id, rank) == Self.promotionLimit { claims.hasMore = true }
            }
        }
        for group in groups where group.binding == .binds {
            let sql = """
                \(SQLiteSchema.schedule) WHERE position IN (SELECT position FROM reachable_jobs
                INDEXED BY reachable_cut_off WHERE lane = ?3 AND outage = ?4 AND outage <> 0 AND due <= ?1
                ORDER BY due LIMIT \(Self.promotionLimit))
                """
            if try execute(sql, now.nanoseconds, clock, id, group.number) == Self.promotionLimit { claims.hasMore = true }
        }
    }

    private func hasDelayed(_ lane: OpenLane) throws -> Bool {
        let sql = """
            SELECT 1 FROM reachable_jobs INDEXED BY reachable_delayed
            WHERE lane = ? AND due IS NOT NULL AND outage IS NULL LIMIT 1
            """
        return try exists(sql, lane.lane.id)
    }

    /// True if a held lane has jobs that nothing else delays; those whose delays have ended were not made ready.
    private func mayRun(_ lane: OpenLane) throws -> Bool {
        if try exists("SELECT 1 FROM reachable_jobs WHERE lane = ? AND outage >= 0 LIMIT 1", lane.lane.id) { return true }
        let ended = """
            SELECT 1 FROM reachable_jobs INDEXED BY reachable_delayed
            WHERE lane = ? AND rank = ? AND due <= ? AND outage IS NULL LIMIT 1
            """
        return try (0...2).contains { rank in try exists(ended, lane.lane.id, rank, now.nanoseconds) }
    }

    /// Finds the earliest end of a delay.
    private func findNextDue(of lane: OpenLane, _ groups: [OutageGroup], _ claims: inout Claims) throws {
        var next: Int64?
        if lane.holdUntil != nil, try mayRun(lane) { next = now.nanoseconds }
        if try hasDelayed(lane) {
            for rank in 0...2 {
                let delayed = try rows(
                    """
                    SELECT due, soft_until, soft_since, soft_outage FROM reachable_jobs INDEXED BY reachable_delayed
                    WHERE lane = ? AND rank = ? AND due > ? AND outage IS NULL ORDER BY due LIMIT 16
                    """, lane.lane.id, rank, now.nanoseconds)
                for row in delayed {
                    let due: Int64 = row[0]
                    if let next, next <= due { break }
                    let soft: (until: Int64?, since: Int64?, group: Int64?) = (row[1], row[2], row[3])
                    let isPast = if let edge = lane.edge, let since = soft.since { since <= edge } else { false }
                    let isVoid = isPast || groups.contains { $0.number == soft.group && $0.binding == .voided }
                    next = min(next ?? .max, isVoid ? due : max(due, soft.until ?? 0))
                }
            }
        }
        for group in groups where group.binding == .binds || group.binding == .voidedBefore {
            if group.binding == .voidedBefore, let edge = lane.edge, group.last <= edge { continue }
            let bound = try rows(
                """
                SELECT due, soft_since FROM reachable_jobs INDEXED BY reachable_cut_off
                WHERE lane = ? AND outage = ? AND outage <> 0 AND due > ?
                ORDER BY due LIMIT 16
                """, lane.lane.id, group.number, now.nanoseconds)
            // If all of these are void, the last one's end is early at worst: the worker then claims once in vain.
            let first = bound.first { row in lane.edge.map { row[1] > $0 } ?? true } ?? bound.last
            if let due = first?[0] as Int64? { next = min(next ?? .max, due) }
        }
        guard let next else { return }
        let due = StoreInstant(nanoseconds: max(next, lane.holdUntil ?? next))
        claims.nextDue = min(claims.nextDue ?? due, due)
    }

    // MARK: Order

    /// A job to claim.
    struct Pick: Comparable {
        var rank: Int64
        var position: Int64
        var source: Int
        var lane: Int

        static func < (left: Pick, right: Pick) -> Bool { (left.rank, left.position) < (right.rank, right.position) }
    }

    /// A part of the index of ready jobs that is in order, read a few rows at a time.
    struct ClaimSource {
        let lane: OpenLane
        let group: Int64
        /// The reconnect that voids delays before it; `nil` if no delay binds.
        let edge: Int64?
        let limit: Int
        private var rows: ArraySlice<SQLiteRow> = []
        private var last: (rank: Int64, position: Int64) = (-1, 0)
        private var chunk = 16
        private var isExhausted = false

        init(lane: OpenLane, group: Int64, edge: Int64?, limit: Int) {
            (self.lane, self.group, self.edge, self.limit) = (lane, group, edge, limit)
        }

        static let all = """
            SELECT rank, position FROM reachable_jobs INDEXED BY reachable_ready
            WHERE lane = ? AND outage = ? AND (rank, position) > (?, ?) ORDER BY rank, position LIMIT ?
            """
        static let voided = """
            SELECT rank, position FROM reachable_jobs INDEXED BY reachable_ready
            WHERE lane = ? AND outage = ? AND (rank, position) > (?, ?) AND (soft_since <= ? OR soft_until <= ?)
            ORDER BY rank, position LIMIT ?
            """

        mutating func next(_ transaction: SQLiteTransaction, number: Int) throws -> Pick? {
            if rows.isEmpty, !isExhausted {
                let size = min(chunk, limit == .max ? .max : limit + 1)
                let (id, now) = (lane.lane.id, transaction.now.nanoseconds)
                let found =
                    if let edge {
                        try transaction.rows(Self.voided, id, group, last.rank, last.position, edge, now, size)
                    } else {
                        try transaction.rows(Self.all, id, group, last.rank, last.position, size)
                    }
                isExhausted = found.count < size
                chunk = min(chunk * 2, 1024)
                rows = found[...]
            }
            guard let row = rows.popFirst() else { return nil }
            last = (row[0], row[1])
            return Pick(rank: last.rank, position: last.position, source: number, lane: lane.index)
        }
    }

    /// Merges sources by priority and position.
    ///
    /// - Returns: The first jobs, and true if there are more.
    private func pick(_ sources: [ClaimSource], limit: Int) throws -> ([Pick], Bool) {
        var (sources, picks, isCut) = (sources, [Pick](), false)
        var taken: [Int: Int] = [:]
        // The heads, the first one at the end.
        var heads: [Pick] = []
        for number in sources.indices {
            if let head = try sources[number].next(self, number: number) { heads.append(head) }
        }
        heads.sort(by: >)
        while let head = heads.popLast() {
            if picks.count >= limit || taken[head.lane, default: 0] >= sources[head.source].lane.limit {
                isCut = true
                if picks.count >= limit { break }
                continue
            }
            picks.append(head)
            taken[head.lane, default: 0] += 1
            guard let next = try sources[head.source].next(self, number: head.source) else { continue }
            var (low, high) = (0, heads.count)
            while low < high {
                let middle = (low + high) / 2
                if heads[middle] > next { low = middle + 1 } else { high = middle }
            }
            heads.insert(next, at: low)
        }
        return (picks, isCut)
    }

    /// Claims a job.
    private func take(_ pick: Pick, _ lane: OpenLane, _ worker: Worker, queue: String) throws -> Claims.Claimed {
        let found = try row(
            """
            UPDATE reachable_jobs SET state = 1, worker = ?1, claim = claim + 1, is_started = 0,
            age = iif(rank = 2 AND outage = 0, ?2 - age, age), outage = NULL, due = NULL
            WHERE position = ?3 RETURNING \(SQLiteRows.columns), claim
            """, worker.number, lane.clock.reading(at: now), pick.position)
        let payload = try row("SELECT payload FROM reachable_payloads WHERE position = ?", pick.position)
        guard let found, let payload else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a job has no payload") }
        let job = try SQLiteRows.job(found, queue: queue, lane: lane.lane, payload: payload[0])
        return Claims.Claimed(job: job, claim: found[SQLiteRows.count])
    }
}
#endif
