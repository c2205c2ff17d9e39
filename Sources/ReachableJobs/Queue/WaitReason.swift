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
    case blocked(JobExplanation.Blocker)
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
    ///   - explanation: The store's part.
    ///   - outlook: The part of this process's worker; `nil` if it has none.
    ///   - node: The node of this process; `nil` if it is not known.
    static func reasons(for explanation: JobExplanation, seenBy outlook: WorkerOutlook?, on node: String? = nil) -> [WaitReason] {
        switch explanation.job.state {
        case .succeeded, .failed, .cancelled: []
        case .running: explanation.isStarted ? [] : reasonsOfClaimed(explanation, outlook)
        case .available: reasonsOfAvailable(explanation, outlook, node)
        }
    }

    private static func reasonsOfClaimed(_ explanation: JobExplanation, _ outlook: WorkerOutlook?) -> [WaitReason] {
        guard let outlook, let worker = explanation.worker, worker == outlook.worker else { return [.claimed] }
        if outlook.lonely.contains(explanation.id) { return [.lonely(crashes: explanation.job.counters.crashes)] }
        guard let job = outlook.onBus[explanation.id] else { return [.turn] }
        return job.state == .running ? [] : [.bus(job.reason)]
    }

    private static func reasonsOfAvailable(
        _ explanation: JobExplanation, _ outlook: WorkerOutlook?, _ node: String?
    ) -> [WaitReason] {
        var reasons: [WaitReason] = explanation.isPaused ? [.paused] : []
        if explanation.workers == 0 { reasons.append(.noWorker) }
        reasons += explanation.blockers.map(WaitReason.blocked)
        // Another worker may know what one that ends does not tell any more.
        let outlook = outlook.flatMap { $0.isEnding ? nil : $0 }
        let unknown = outlook.flatMap { unregistered(explanation.job, $0) }
        if let unknown { reasons.append(unknown) }
        if outlook?.undecodable.contains(explanation.id) == true {
            reasons.append(.undecodable(version: explanation.job.version, kind: explanation.job.kind))
        }
        reasons += delays(explanation, outlook, node)
        if let outlook, unknown == nil { reasons += unmet(explanation.job, outlook) }
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

    private static func delays(
        _ explanation: JobExplanation, _ outlook: WorkerOutlook?, _ node: String?
    ) -> [WaitReason] {
        let job = explanation.job
        let now = explanation.now
        func left(_ end: StoreInstant?) -> Duration? { end.flatMap { $0 > now ? now.duration(to: $0) : nil } }
        var reasons: [WaitReason] = []
        if let time = left(job.notBefore) { reasons.append(.notDue(time)) }
        let isUndecodable = outlook?.undecodable.contains(job.id) == true
        if let soft = job.softDelay, !isUndecodable, let time = left(end(of: soft, job, outlook, node)) {
            reasons.append(.backoff(time, isNetwork: soft.isNetwork, error: job.lastError))
        }
        if let time = left(job.hardUntil) { reasons.append(.serverDelay(time)) }
        if let time = left(explanation.holdUntil) {
            let target = ScopeText.scope(from: job.scope).map { WaitWords.target($0, job.destination) }
            reasons.append(.hold(time, target: target ?? job.destination ?? job.scope))
        }
        return reasons
    }

    /// Returns the end of a backoff for this node; `nil` if an edge has ended it.
    private static func end(
        of delay: DurableJob.SoftDelay, _ job: DurableJob, _ outlook: WorkerOutlook?, _ node: String?
    ) -> StoreInstant? {
        guard let avoidance = job.avoidance else { return delay.until }
        if let node, node != avoidance.node { return job.handOver }
        let edge = outlook.map { $0.edges[QueueCore.KindScope(kind: job.kind, scope: job.scope)] ?? $0.began }
        return edge.map { avoidance.since < $0 } == true ? nil : delay.until
    }

    private static func unmet(_ job: DurableJob, _ outlook: WorkerOutlook) -> [WaitReason] {
        let unmet = outlook.unmet[QueueCore.KindScope(kind: job.kind, scope: job.scope)] ?? []
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

extension JobExplanation.Blocker {
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
