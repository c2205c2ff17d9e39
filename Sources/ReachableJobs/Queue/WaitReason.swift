internal import Reachability
internal import ReachableRetry

/// A reason why a durable job does not run.
///
/// ``reasons(for:seenBy:)`` finds the reasons, and ``words`` puts each into words. Pure.
enum WaitReason: Hashable, Sendable {
    case paused
    /// No worker has the queue.
    case noWorker
    /// A worker of another process decides, and only that one knows more.
    case otherWorker
    /// A worker of another process has claimed it, and has not started it.
    case claimed
    case blocked(JobStanding.Blocker)
    case unknownKind(String)
    case unknownVersion(Int, kind: String, known: [Int])
    case unknownScope(String)
    /// Workers that could not decode a payload do not claim it again.
    case undecodable(version: Int, kind: String)
    case notDue(Duration)
    case backoff(Duration, isNetwork: Bool, error: String?)
    case serverDelay(Duration)
    /// A server ordered a delay for all jobs of a target.
    case hold(Duration, target: String)
    case network(String)
    case condition(String)
    /// As many jobs of the kind are claimed as this worker may.
    case kindLimit(Int, kind: String)
    /// It waits until it can run alone, because of its crashes.
    case lonely(crashes: Int)
    /// Another job runs alone.
    case behind(DurableJobID)
    /// This worker has claimed as many jobs as it may.
    case full
    /// The bus's words.
    case bus(String)
    /// Nothing holds it back: a worker will claim it.
    case turn

    // MARK: - Finding

    /// Returns the reasons, the most decisive first; none if the job is running or has ended.
    ///
    /// - Parameters:
    ///   - standing: The store's part.
    ///   - outlook: The part of this process's worker; `nil` if it has none.
    ///   - node: The node of this process; `nil` if it is not known.
    static func reasons(for standing: JobStanding, seenBy outlook: WorkerOutlook?, on node: String? = nil) -> [WaitReason] {
        switch standing.job.state {
        case .succeeded, .failed, .cancelled: []
        case .running: standing.isStarted ? [] : reasonsOfClaimed(standing, outlook)
        case .available: reasonsOfAvailable(standing, outlook, node)
        }
    }

    private static func reasonsOfClaimed(_ standing: JobStanding, _ outlook: WorkerOutlook?) -> [WaitReason] {
        guard let outlook, let worker = standing.worker, worker == outlook.worker else { return [.claimed] }
        if outlook.lonely.contains(standing.id) { return [.lonely(crashes: standing.job.counters.crashes)] }
        guard let job = outlook.onBus[standing.id] else { return [.turn] }
        return job.state == .running ? [] : [.bus(job.reason)]
    }

    private static func reasonsOfAvailable(
        _ standing: JobStanding, _ outlook: WorkerOutlook?, _ node: String?
    ) -> [WaitReason] {
        var reasons: [WaitReason] = standing.isPaused ? [.paused] : []
        if standing.workers == 0 { reasons.append(.noWorker) }
        reasons += standing.blockers.map(WaitReason.blocked)
        // Another worker may know what one that ends does not tell any more.
        let outlook = outlook.flatMap { $0.isEnding ? nil : $0 }
        let unknown = outlook.flatMap { unregistered(standing.job, $0) }
        if let unknown { reasons.append(unknown) }
        // A worker that has not tried to decode it will.
        let isRefused = outlook.map { $0.worker.map(standing.undecodableBy.contains) ?? false } ?? !standing.undecodableBy.isEmpty
        if isRefused { reasons.append(.undecodable(version: standing.job.version, kind: standing.job.kind)) }
        reasons += delays(standing, outlook, node)
        if let outlook, unknown == nil { reasons += way(standing.job, outlook) }
        guard reasons.isEmpty else { return reasons }
        guard let outlook else { return [.otherWorker] }
        if let alone = outlook.alone { return [.behind(alone)] }
        return outlook.isFull ? [.full] : [.turn]
    }

    private static func unregistered(_ job: DurableJob, _ outlook: WorkerOutlook) -> WaitReason? {
        guard let kind = outlook.kinds[job.kind] else { return .unknownKind(job.kind) }
        guard kind.versions.contains(job.version) else {
            return .unknownVersion(job.version, kind: job.kind, known: kind.versions.sorted())
        }
        return ScopeText.scope(from: job.scope) == nil ? .unknownScope(job.scope) : nil
    }

    private static func delays(_ standing: JobStanding, _ outlook: WorkerOutlook?, _ node: String?) -> [WaitReason] {
        let job = standing.job
        func left(_ end: StoreInstant?) -> Duration? { end.flatMap { $0 > standing.now ? standing.now.duration(to: $0) : nil } }
        var reasons: [WaitReason] = []
        if let time = left(job.notBefore) { reasons.append(.notDue(time)) }
        if let soft = job.softDelay, let time = left(soft.until) {
            let edge = outlook?.edges[QueueCore.Reach(kind: job.kind, scope: job.scope)]
            // The failure of another node's network delays nothing here.
            let isElsewhere = node.map { node in standing.boundNode.map { $0 != node } ?? false } ?? false
            if !soft.isNetwork || !isElsewhere && edge.map({ soft.since >= $0 }) ?? true {
                reasons.append(.backoff(time, isNetwork: soft.isNetwork, error: job.lastError))
            }
        }
        if let time = left(job.hardUntil) { reasons.append(.serverDelay(time)) }
        if let time = left(standing.holdUntil) {
            let target = ScopeText.scope(from: job.scope).map { WaitWords.target($0, job.destination) }
            reasons.append(.hold(time, target: target ?? job.destination ?? job.scope))
        }
        return reasons
    }

    private static func way(_ job: DurableJob, _ outlook: WorkerOutlook) -> [WaitReason] {
        let unmet = outlook.unmet[QueueCore.Reach(kind: job.kind, scope: job.scope)] ?? []
        var reasons = unmet.map { unmet in
            switch unmet {
            case .network(let words): WaitReason.network(words)
            case .condition(let name): WaitReason.condition(name)
            }
        }
        if let limit = outlook.kinds[job.kind]?.limit, outlook.held[job.kind] ?? 0 >= limit {
            reasons.append(.kindLimit(limit, kind: job.kind))
        }
        return reasons
    }

    // MARK: - Words

    /// The reason as text; a reason that the retry bus has, too, is in its words.
    var words: String {
        switch self {
        case .paused: "the queue is paused until it is resumed"
        case .noWorker: "waits for a worker: none runs"
        case .otherWorker: "waits for a worker of another process"
        case .claimed: "waits at a worker of another process, which has claimed it"
        case .blocked(let blocker): blocker.words
        case .unknownKind(let kind): "waits for a worker with the kind '\(kind)': it is not registered here"
        case .unknownVersion(let version, let kind, let known):
            "waits for a worker with version \(version) of the kind '\(kind)': "
                + "registered here is \(known.map { "\($0)" }.joined(separator: ", "))"
        case .unknownScope(let text): "waits for a worker that can read its scope '\(text)'"
        case .undecodable(let version, let kind): "waits for a worker that can decode version \(version) of the kind '\(kind)'"
        case .notDue(let time): WaitWords.due(in: time)
        case .backoff(let time, true, _): WaitWords.backoff(time, after: " after a network failure")
        case .backoff(let time, false, let error): WaitWords.backoff(time, after: error.map { " after the error \($0)" } ?? "")
        case .serverDelay(let time): WaitWords.serverDelay(time)
        case .hold(let time, let target): WaitWords.hold(time, target, answering: nil)
        case .network(let words): WaitWords.waits(for: [words])
        case .condition(let name): WaitWords.waits(for: [WaitWords.condition(name)])
        case .kindLimit(let limit, let kind):
            "waits for its turn: \(limit == 1 ? "1 job" : "\(limit) jobs") of the kind '\(kind)', as many as may at a time"
        case .lonely(let crashes): "waits until it can run alone: \(crashes) of its attempts ended with their process"
        case .behind(let id): "waits for its turn: job \(id) has to run alone"
        case .full: "waits for its turn: the worker has claimed as many jobs as it may"
        case .bus(let words): words
        case .turn: "waits for its turn"
        }
    }

    /// The public form.
    var reason: PendingDurableJob.Reason {
        var reason = PendingDurableJob.Reason(kind: kind, words: words)
        switch self {
        case .notDue(let time), .backoff(let time, _, _), .serverDelay(let time), .hold(let time, _):
            reason.delay = time
        case .blocked(let blocker): reason.job = blocker.id
        case .behind(let id): reason.job = id
        default: break
        }
        return reason
    }

    private var kind: PendingDurableJob.Reason.Kind {
        switch self {
        case .paused: .paused
        case .noWorker: .worker
        case .otherWorker: .otherWorker
        case .claimed: .claimed
        case .blocked: .blocked
        case .unknownKind, .unknownVersion, .unknownScope: .unregistered
        case .undecodable: .undecodable
        case .notDue: .notDue
        case .backoff: .backingOff
        case .serverDelay, .hold: .serverDelay
        case .network: .network
        case .condition: .condition
        case .kindLimit, .lonely, .behind, .full, .turn: .queued
        case .bus: .bus
        }
    }
}

extension JobStanding.Blocker {
    /// The wait for the job as text.
    fileprivate var words: String {
        let wait = "waits for job \(id) with its \(key.rawValue) key"
        return switch state {
        case .running: wait + ", which runs"
        case .failed: wait + ", which failed for good: retry or cancel that one"
        case .available, .succeeded, .cancelled: wait
        }
    }
}
