@testable import ReachableRetry

/// A model of jobs, computed from the events each time: no indices, no lists, no shortcuts.
struct CoreModel {
    struct Condition {
        var isReachability: Bool
        var isSatisfied = false
        /// The number of its edges.
        var told: UInt64 = 0
        /// The same, not counting what was there when it was first looked at.
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
        /// The scope's epoch in which the system last told it that there is no network.
        var unreachableIn: Int?
        /// The number of answers when no name server answered it.
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
        /// The addresses that its attempt's connections come from.
        var sources: [Int] = []
        /// Since when it waits for its scope, and since when its attempt lacks what its policy says.
        var scopeWaitSince: Int?
        var missingSince: Int?
        /// Since when it waits for anything, and how long it had waited before.
        var waitSince: Int?
        var waitedBefore = 0
        /// The last condition that it reported to wait for since its last start.
        var reportedWait: Int?
        /// True if its attempt started while its gate was trying the way.
        var isProbe = false
        /// True while it may stand in line because a shortage or a server's delay held jobs back.
        var mayStandInLine = false
        /// True once it may have stood in line: the bus counts such waits by the scope alone.
        var hasStoodInLine = false

        func needs(_ condition: Int) -> Bool { scope == condition || extras.contains(condition) || sources.contains(condition) }

        var deadline: Int { variant.elapsed.map { submitted + $0 } ?? .max }
    }

    var now = 0
    var conditions: [Condition]
    var jobs: [Job] = []
    var retryNows: [Int: Int] = [:]
    var allRetryNows = 0
    /// The scope's epoch in which a destination was reached last.
    var reached: [String: Int] = [:]
    /// The number of answers to each scope's jobs.
    var answers: [Int: Int] = [:]
    /// The number of attempts at the last shortage of this machine, and its time.
    var shortage: (limit: Int, since: Int)?
    /// Until when servers want to be left alone, by place.
    var orders: [String: Int] = [:]
    /// The gates that are trying the way: no job has got through since an edge, or a failure of the network.
    var probing: Set<String> = []
    /// The gates that there are.
    var places: Set<String> = []
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

    /// True if the running attempt lacks a condition, or all of the addresses that it started with, as its policy says.
    private func isCutOff(_ job: Job) -> Bool {
        guard job.variant.heedsSource else { return !isMet(job) }
        return !job.sources.isEmpty && job.sources.allSatisfy { conditions[$0].isLive && !conditions[$0].isSatisfied }
    }

    /// When the job's delays end.
    func release(_ job: Job) -> Int {
        let isVoided = epoch(job) != job.armedEpoch || retryNows(job) != job.armedRetryNows
        return max(job.hard, isVoided ? .min : job.soft)
    }

    /// The conditions that the job waits for, the first of which is the one that it says it waits for.
    func unmet(_ job: Job) -> [Int] {
        ((job.variant.mode == .wait ? [job.scope] : []) + job.extras).filter { !conditions[$0].isOpen(at: now) }
    }

    func isHopeless(_ job: Job) -> Bool {
        job.extras.contains { !conditions[$0].isReachability && conditions[$0].isFinished && !conditions[$0].isSatisfied }
    }

    /// Follows what has to be measured from the moment when it began.
    mutating func measure() {
        for index in jobs.indices where jobs[index].state != .ended {
            if jobs[index].state != .parked { jobs[index].mayStandInLine = false }
            if jobs[index].state == .parked, isHoldingBack {
                (jobs[index].mayStandInLine, jobs[index].hasStoodInLine) = (true, true)
            }
            let job = jobs[index]
            // A monitor that has not looked does not say that the network is away.
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

    /// When something happens to a job by itself.
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
            // In line, its own delay is looked at when its turn comes.
            if isMet(job) { return min(job.deadline, max(release(job), job.mayStandInLine ? timeOfStart(job) : .min)) }
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
        // Who is ready waits for a place only.
        let times = jobs.map { isReady($0) ? min($0.deadline, timeOfStart($0)) : nextTime($0) }
        return min(times.min() ?? .max, self.jobs.contains { $0.state != .ended } ? drainEnd : .max)
    }

    func isReady(_ job: Job) -> Bool { job.state == .parked && !job.isPaused && isMet(job) && release(job) <= now }

    /// When a job that is ready starts; ``now`` if nothing holds it.
    func timeOfStart(_ job: Job) -> Int { max(timeOfNextPlace, endOfOrder(job)) }

    /// Until when the job's server wants to be left alone.
    func endOfOrder(_ job: Job) -> Int {
        job.destination == nil || job.variant.mode == .wait && job.variant.bypassesGate ? .min : orders[place(job), default: .min]
    }

    /// True while a shortage or a server's delay holds jobs back.
    var isHoldingBack: Bool { shortage != nil || orders.values.contains { $0 > now } }

    /// When one more may run; ``now`` if nothing limits them.
    var timeOfNextPlace: Int {
        guard let shortage else { return now }
        let running = jobs.count { $0.state == .running }
        return max(now, shortage.since + 1000 * (running - shortage.limit + 1))
    }

    /// Whose fault a failure is, in the words of the rules.
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
            let areFound = job.answersAtNameFailure.map { answers[job.scope, default: 0] > $0 } ?? false
            return isCut || overlaps || !areFound ? .network : .server
        case .unanswered, .timedOut:
            let isSettling = scope.isLive && scope.edgeAt.map { now - $0 <= 30_000 } == true && reached[place(job)] != scope.epoch
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

    /// What is known of a condition goes with it.
    mutating func forget(_ index: Int) {
        (conditions[index].epoch, conditions[index].edgeAt) = (0, nil)
        (retryNows[index], answers[index]) = (nil, nil)
        reached = reached.filter { !$0.key.hasPrefix("\(index) ") }
        orders = orders.filter { !$0.key.hasPrefix("\(index) ") }
        places = places.filter { !$0.hasPrefix("\(index) ") }
        probing.formIntersection(places)
    }

    func place(_ job: Job) -> String { "\(job.scope) \(job.destination ?? "-")" }
}
