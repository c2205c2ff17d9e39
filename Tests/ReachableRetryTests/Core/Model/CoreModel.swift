@testable import ReachableRetry

/// A model of the rules for jobs.
///
/// It computes everything from the events each time, without indices and caches.
struct CoreModel {
    struct Condition {
        var isReachability: Bool
        var isSatisfied = false
        /// The epoch of the level that the core receives.
        var levelEpoch: UInt64 = 0
        /// The number of edges after the first verdict.
        var epoch = 0
        var isFinished = false
        var isUnsteady = false
        var isKnown: Bool
        var unknownUntil = 0
        var edgeAt: Int?

        func isOpen(at now: Int) -> Bool {
            if isReachability, isFinished || (!isKnown && now >= unknownUntil) { return true }
            return isKnown && isSatisfied
        }

        var isLive: Bool { isKnown && !isFinished }
    }

    enum State: Equatable {
        case parked
        case running
        case failed
        case ended
    }

    struct Job {
        var variant: Variant
        var scope: Int
        var extras: [Int]
        var destination: String?
        var priority: JobPriority
        var submitted: Int
        var state = State.parked
        var soft = Int.min
        var hard = Int.min
        var started = 0
        var charged = 0
        var networkFailures = 0
        var localFailures = 0
        var failureIndex = 0
        var connectivityIndex = 0
        var previousDelay: Int?
        var lastFault: AttemptFailure.Fault?
        /// The scope's epoch of the last "network is unreachable" error.
        var unreachableIn: Int?
        /// The number of answers to the scope's jobs at the last failed name lookup.
        var answersAtNameFailure: Int?
        var lastWasCharged = false
        var armedEpoch = 0
        var armedScopeEpoch = 0
        var armedRetryNows = 0
        var startedAt = 0
        var isInterrupted = false
        var isCancelled = false
        var isPaused = false
        var interruptedBy: JobState.Interruption?
        /// The source addresses of the attempt's connections.
        var sources: [Int] = []
        /// The start of the wait for its scope.
        var scopeWaitSince: Int?
        /// The start of the loss that may interrupt the attempt.
        var missingSince: Int?
        /// The start of the wait for any condition.
        var waitSince: Int?
        /// The duration of earlier waits.
        var waitedBefore = 0
        /// The condition of its last `waiting` event since its last start.
        var reportedWait: Int?
        /// True if its attempt started while its gate was probing.
        var isProbe = false
        /// True while it may be queued because of a shortage or a delay ordered by the server.
        var mayBeQueued = false
        /// True once it may have been queued: the bus then measures waits by the scope alone.
        var mayHaveBeenQueued = false

        func needs(_ condition: Int) -> Bool { scope == condition || extras.contains(condition) || sources.contains(condition) }

        var deadline: Int { variant.elapsed.map { submitted + $0 } ?? .max }
    }

    var now = 0
    var conditions: [Condition]
    var jobs: [Job] = []
    var retryNows: [Int: Int] = [:]
    var allRetryNows = 0
    /// The scope's epoch of each destination's last answer.
    var reached: [String: Int] = [:]
    /// The number of answers to each scope's jobs.
    var answers: [Int: Int] = [:]
    /// The number of running attempts at the last shortage of this machine, and its time.
    var shortage: (limit: Int, since: Int)?
    /// The end of the delay that a server ordered, by gate.
    var serverDelays: [String: Int] = [:]
    /// The probing gates: no job has succeeded since an edge or a network failure.
    var probing: Set<String> = []
    /// The existing gates.
    var gates: Set<String> = []
    var isShutDown = false
    var drainEnd = Int.max

    func epoch(_ job: Job) -> Int {
        (job.variant.mode == .ignore ? 0 : conditions[job.scope].epoch) + job.extras.reduce(0) { $0 + conditions[$1].epoch }
    }

    func retryNows(_ job: Job) -> Int { allRetryNows + (retryNows[job.scope] ?? 0) }

    func isMet(_ job: Job) -> Bool {
        (job.variant.mode != .wait || conditions[job.scope].isOpen(at: now))
            && job.extras.allSatisfy { conditions[$0].isOpen(at: now) }
    }

    /// True if the policy may interrupt the running attempt: a condition is unsatisfied, or all source addresses are lost.
    private func isCutOff(_ job: Job) -> Bool {
        guard job.variant.heedsSource else { return !isMet(job) }
        return !job.sources.isEmpty && job.sources.allSatisfy { conditions[$0].isLive && !conditions[$0].isSatisfied }
    }

    /// Returns the end of the job's delays.
    func release(_ job: Job) -> Int {
        let isVoided = epoch(job) != job.armedEpoch || retryNows(job) != job.armedRetryNows
        return max(job.hard, isVoided ? .min : job.soft)
    }

    /// Returns the unmet conditions; `waiting` events name the first one.
    func unmet(_ job: Job) -> [Int] {
        ((job.variant.mode == .wait ? [job.scope] : []) + job.extras).filter { !conditions[$0].isOpen(at: now) }
    }

    func isHopeless(_ job: Job) -> Bool {
        job.extras.contains { !conditions[$0].isReachability && conditions[$0].isFinished && !conditions[$0].isSatisfied }
    }

    /// Updates the starts and sums of waits and losses.
    mutating func measure() {
        for index in jobs.indices where jobs[index].state != .ended {
            if jobs[index].state != .parked { jobs[index].mayBeQueued = false }
            if jobs[index].state == .parked, isDelayingJobs {
                (jobs[index].mayBeQueued, jobs[index].mayHaveBeenQueued) = (true, true)
            }
            let job = jobs[index]
            // Before the monitor's first verdict the network is not known to be down.
            let lacksScope =
                job.variant.mode == .wait && conditions[job.scope].isKnown && !conditions[job.scope].isOpen(at: now)
            if job.state != .parked || job.isPaused || !lacksScope { jobs[index].scopeWaitSince = nil }
            if job.state == .parked, !job.isPaused, lacksScope, job.scopeWaitSince == nil { jobs[index].scopeWaitSince = now }
            if let since = job.waitSince, job.state != .parked || job.isPaused || isMet(job) {
                jobs[index].waitedBefore += now - since
                jobs[index].waitSince = nil
            }
            if job.state == .parked, !job.isPaused, !isMet(job), job.waitSince == nil { jobs[index].waitSince = now }
            if job.state != .running { jobs[index].sources = [] }
            if job.state != .running || !isCutOff(job) { jobs[index].missingSince = nil }
            if job.state == .running, isCutOff(job), job.missingSince == nil { jobs[index].missingSince = now }
        }
    }

    /// Returns the time of a job's next timer.
    func nextTime(_ job: Job) -> Int {
        switch job.state {
        case .ended, .failed: return .max
        case .running:
            guard !job.isInterrupted else { return .max }
            let timeout = job.variant.timeout.map { job.startedAt + $0 } ?? .max
            let interruption = job.variant.grace.flatMap { grace in job.missingSince.map { $0 + grace } } ?? .max
            return min(job.deadline, timeout, interruption)
        case .parked where job.isPaused: return job.deadline
        case .parked:
            // The core checks the own delay of a queued job at its turn.
            if isMet(job) { return min(job.deadline, max(release(job), job.mayBeQueued ? timeOfStart(job) : .min)) }
            var time = job.deadline
            if let since = job.scopeWaitSince {
                if let limit = job.variant.waitLimit { time = min(time, since + limit) }
            }
            let scope = conditions[job.scope]
            if job.variant.mode == .wait, !scope.isKnown, !scope.isOpen(at: now) { time = min(time, scope.unknownUntil) }
            return time
        }
    }

    var nextTime: Int {
        // A ready job waits only for a free place.
        let times = jobs.map { isReady($0) ? min($0.deadline, timeOfStart($0)) : nextTime($0) }
        return min(times.min() ?? .max, self.jobs.contains { $0.state != .ended } ? drainEnd : .max)
    }

    func isReady(_ job: Job) -> Bool { job.state == .parked && !job.isPaused && isMet(job) && release(job) <= now }

    /// Returns the start of a ready job; ``now`` if nothing delays it.
    func timeOfStart(_ job: Job) -> Int { max(timeOfNextPlace, endOfServerDelay(job)) }

    /// Returns the end of the delay that the job's server ordered.
    func endOfServerDelay(_ job: Job) -> Int {
        job.destination == nil ? .min : serverDelays[gate(job), default: .min]
    }

    /// True while a shortage or a delay ordered by a server delays jobs.
    var isDelayingJobs: Bool { shortage != nil || serverDelays.values.contains { $0 > now } }

    /// The time at which one more attempt may run; ``now`` without a limit.
    var timeOfNextPlace: Int {
        guard let shortage else { return now }
        let running = jobs.count { $0.state == .running }
        return max(now, shortage.since + 1000 * (running - shortage.limit + 1))
    }

    /// Returns the fault of a failure by the rules.
    func fault(_ job: Job, _ report: FailureReport, isGone: Bool) -> AttemptFailure.Fault {
        let scope = conditions[job.scope]
        let overlaps =
            job.variant.mode != .ignore && scope.isLive && (isGone || scope.epoch != job.armedScopeEpoch || !scope.isSatisfied)
        let isCut = job.interruptedBy == .loss
        switch report.evidence {
        case .classified(.server), .classified(.request), .classified(.overload):
            guard case .classified(let fault) = report.evidence else { return .unknown }
            return fault
        case .classified(.network): return .network
        case .classified(.local), .shortage: return isCut ? .network : .local
        case .classified(.unknown), .unclassified: return isCut || overlaps ? .network : .unknown
        case .unreachable:
            let isKnown = scope.isLive && job.unreachableIn == scope.epoch
            return isCut || overlaps || !isKnown ? .network : .unknown
        case .refused: return isCut || overlaps ? .network : .server
        case .noSourceAddress: return isCut || overlaps ? .network : .local
        case .noNameServer:
            let hasNewAnswers = job.answersAtNameFailure.map { answers[job.scope, default: 0] > $0 } ?? false
            return isCut || overlaps || !hasNewAnswers ? .network : .server
        case .unanswered, .timedOut:
            let isSettling = scope.isLive && scope.edgeAt.map { now - $0 <= 30_000 } == true && reached[gate(job)] != scope.epoch
            return isCut || overlaps || isSettling ? .network : .server
        }
    }

    func isCharged(_ job: Job, _ fault: AttemptFailure.Fault) -> Bool {
        switch fault {
        case .local: false
        case .network: job.interruptedBy != .loss && (job.variant.mode != .wait || !conditions[job.scope].isLive)
        default: true
        }
    }

    mutating func end(_ index: Int) {
        jobs[index].state = .ended
        if jobs.allSatisfy({ $0.state == .ended }) { shortage = nil }
    }

    /// Removes a condition with all that depends on it.
    mutating func removeCondition(_ index: Int) {
        (conditions[index].epoch, conditions[index].edgeAt) = (0, nil)
        (retryNows[index], answers[index]) = (nil, nil)
        reached = reached.filter { !$0.key.hasPrefix("\(index) ") }
        serverDelays = serverDelays.filter { !$0.key.hasPrefix("\(index) ") }
        gates = gates.filter { !$0.hasPrefix("\(index) ") }
        probing.formIntersection(gates)
    }

    func gate(_ job: Job) -> String { "\(job.scope) \(job.destination ?? "-")" }
}
