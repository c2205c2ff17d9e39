internal import Reachability
internal import ReachableRetry

/// Finds the reasons why a durable job does not run.
///
/// Pure. A reason that the retry bus has, too, is in its words.
struct ReasonFinder {
    typealias Reason = PendingDurableJob.Reason

    private let explanation: JobExplanation
    private let job: DurableJob
    private let outlook: WorkerOutlook?
    private let node: String?

    /// - Parameters:
    ///   - explanation: The store's part.
    ///   - outlook: The part of this process's worker; `nil` if it has none.
    ///   - node: The node of this process; `nil` if it is not known.
    init(_ explanation: JobExplanation, seenBy outlook: WorkerOutlook?, on node: String? = nil) {
        (self.explanation, job, self.node) = (explanation, explanation.job, node)
        // Another worker may know what one that ends does not tell any more.
        self.outlook = outlook?.isEnding == true && job.state == .available ? nil : outlook
    }

    /// The reasons, the most decisive first; none if the job is running or has ended.
    var reasons: [Reason] {
        switch job.state {
        case .succeeded, .failed, .cancelled: []
        case .running: explanation.isStarted ? [] : reasonsOfClaimed
        case .available: reasonsOfAvailable
        }
    }

    private var reasonsOfClaimed: [Reason] {
        guard let outlook, let worker = explanation.worker, worker == outlook.worker else {
            return [Reason(.claimed, "waits at a worker of another process, which has claimed it")]
        }
        if outlook.lonely.contains(job.id) {
            let crashes = job.counters.crashes
            return [Reason(.queued, "waits until it can run alone: \(crashes) of its attempts ended with their process")]
        }
        guard let attempt = outlook.onBus[job.id] else { return [turn()] }
        return attempt.state == .running ? [] : [Reason(.bus, attempt.reason)]
    }

    private var reasonsOfAvailable: [Reason] {
        var reasons: [Reason] = []
        if explanation.isPaused { reasons.append(Reason(.paused, "the queue is paused until it is resumed")) }
        if explanation.workers == 0 { reasons.append(Reason(.worker, "waits for a worker: none runs")) }
        reasons += explanation.blockers.map { Reason(.blocked, $0.words, job: $0.id) }
        let unregistered = unregistered
        if let unregistered { reasons.append(unregistered) }
        if isUndecodable {
            let words = "waits for a worker that can decode version \(job.version) of the kind '\(job.kind)'"
            reasons.append(Reason(.undecodable, words))
        }
        reasons += delays
        if let outlook, unregistered == nil { reasons += unmet(outlook) }
        guard reasons.isEmpty else { return reasons }
        // Nothing holds it back: a worker will claim it.
        guard let outlook else { return [Reason(.otherWorker, "waits for a worker of another process")] }
        if let alone = outlook.alone { return [turn(": job \(alone) has to run alone", job: alone)] }
        return [turn(outlook.isFull ? ": the worker has claimed as many jobs as it may" : "")]
    }

    private func turn(_ words: String = "", job: DurableJobID? = nil) -> Reason {
        Reason(.queued, "waits for its turn" + words, job: job)
    }

    private var unregistered: Reason? {
        guard let outlook else { return nil }
        let words: String
        if let kind = outlook.kinds[job.kind] {
            if !kind.versions.contains(job.version) {
                let known = kind.versions.sorted().map { "\($0)" }.joined(separator: ", ")
                words = "with version \(job.version) of the kind '\(job.kind)': registered here is \(known)"
            } else if ScopeText.scope(from: job.scope) == nil {
                words = "that can read its scope '\(job.scope)'"
            } else {
                return nil
            }
        } else {
            words = "with the kind '\(job.kind)': it is not registered here"
        }
        return Reason(.unregistered, "waits for a worker " + words)
    }

    /// True if this worker could not decode the payload, and leaves the job to others for a while.
    private var isUndecodable: Bool { outlook?.undecodable.contains(job.id) == true }

    private var delays: [Reason] {
        var reasons: [Reason] = []
        func add(_ kind: Reason.Kind, until end: StoreInstant?, _ words: (Duration) -> String) {
            guard let end, end > explanation.now else { return }
            let time = explanation.now.duration(to: end)
            reasons.append(Reason(kind, words(time), delay: time))
        }
        add(.notDue, until: job.notBefore) { WaitWords.due(in: $0) }
        add(.backingOff, until: isUndecodable ? nil : backoffEnd) { time in
            let error = job.lastError.map { " after the error \($0)" } ?? ""
            return WaitWords.backoff(time, after: job.softDelay?.isNetwork == true ? " after a network failure" : error)
        }
        add(.serverDelay, until: job.hardUntil) { WaitWords.serverDelay($0) }
        add(.serverDelay, until: explanation.holdUntil) { time in
            let target = ScopeText.scope(from: job.scope).map { WaitWords.target($0, job.destination) }
            return WaitWords.hold(time, target ?? job.destination ?? job.scope, answering: nil)
        }
        return reasons
    }

    /// The end of the backoff for this node; `nil` if there is none, or an edge has ended it.
    private var backoffEnd: StoreInstant? {
        guard let avoidance = job.avoidance else { return job.softDelay?.until }
        if let node, node != avoidance.node { return job.handOver }
        let edge = outlook.map { $0.edges[job.kindScope] ?? $0.began }
        return edge.map { avoidance.since < $0 } == true ? nil : job.softDelay?.until
    }

    private func unmet(_ outlook: WorkerOutlook) -> [Reason] {
        let unmet = outlook.unmet[job.kindScope] ?? []
        guard let limit = outlook.kinds[job.kind]?.limit, outlook.held[job.kind] ?? 0 >= limit else { return unmet }
        return unmet + [turn(": \(limit == 1 ? "1 job" : "\(limit) jobs") of the kind '\(job.kind)', as many as may at a time")]
    }
}

extension JobExplanation.Blocker {
    fileprivate var words: String {
        let wait = "waits for job \(id) with its \(key.rawValue) key"
        return switch state {
        case .running: wait + ", which runs"
        case .failed: wait + ", which failed for good: retry or cancel that one"
        case .available, .succeeded, .cancelled: wait
        }
    }
}
