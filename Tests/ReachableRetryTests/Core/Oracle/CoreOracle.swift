@testable import ReachableRetry

/// A second, naive implementation of the rules: from the core's inputs it predicts starts, ends, and the next time.
///
/// Simple and slow: it scans plain arrays after each event, stores nothing that it can count again, and shares no constant
/// with the core.
struct CoreOracle {
    struct Condition {
        let isReachability: Bool
        var level: Level
        var unknownUntil: BusTime
        /// The epoch of the first verdict, which is no edge.
        var baseline: UInt64
        /// True if the first verdict did not come in time.
        var isGivenUp = false
        var edges: [BusTime] = []
        var spreadUntil = BusTime.past
        var canaryAt = BusTime.past
        /// The end of the time in which a lookup's loss overrules the level.
        var lostUntil: BusTime?
        /// The time of the last change between open and closed.
        var since = BusTime.start
        var retryNows = 0
        /// The number of answers to its jobs, and the epoch in which the last answered attempt started.
        var answers = 0
        var answeredIn: UInt64?

        init(_ level: Level, isReachability: Bool, unknownUntil: BusTime) {
            self.level = level
            self.isReachability = isReachability
            self.unknownUntil = unknownUntil
            baseline = level.epoch
        }

        var epoch: UInt64 { level.epoch - baseline }
        var isUnknown: Bool { isReachability && !level.isKnown }
        var isLive: Bool { level.isKnown && !level.isFinished }
        var isHopeless: Bool { !isReachability && level.isFinished && !level.isSatisfied }
        var isOpen: Bool {
            if isReachability, level.isFinished || (!level.isKnown && isGivenUp) { return true }
            return level.isKnown && isSatisfied
        }
        var isSatisfied: Bool { level.isSatisfied && lostUntil == nil }
        var isUnsteady: Bool { isReachability && isLive && level.isUnsteady }
    }

    enum State: Equatable {
        case parked
        case running
        case ended
    }

    /// The place of a job that is not running.
    enum Place: Equatable {
        case nowhere
        /// Paused.
        case paused
        /// Waits for its scope, or for its turn.
        case queued
        case waiting(Int)
        case backingOff
    }

    enum Pass {
        case free
        case canary
        case bypass
        case window
    }

    struct QueuePosition: Comparable {
        var priority: JobPriority
        var number: Int

        static func < (left: QueuePosition, right: QueuePosition) -> Bool {
            left.priority == right.priority ? left.number < right.number : left.priority > right.priority
        }
    }

    struct Job {
        let variant: Variant
        let scope: Int
        var extras: [Int]
        let gate: Int
        let priority: JobPriority
        let submitted: BusTime
        let deadline: BusTime

        var state = State.parked
        var place = Place.nowhere
        var position: QueuePosition?
        var isPaused = false
        var isCancelled = false
        var interruption: JobState.Interruption?
        /// The condition of its last `waiting` event since its last start.
        var reportedWait: Int?

        var started = 0
        var charged = 0
        var networkFailures = 0
        var failureIndex = 0
        var connectivityIndex = 0
        var previousDelay: Duration?
        var lastFault: AttemptFailure.Fault?
        /// The scope's epoch of the last "network is unreachable" error.
        var unreachableIn: UInt64?
        /// The number of answers to the scope's jobs at the last failed name lookup.
        var answersAtNameFailure: Int?
        var lastWasCharged = false
        /// The tokens that its last retry took from the budget.
        var refund: Int?

        var soft = BusTime.past
        var hard = BusTime.past
        /// The end of the wait limit if its scope stays unsatisfied.
        var limit = BusTime.never
        /// The source addresses of its attempt.
        var sources: [Int] = []
        var interruptAt = BusTime.never
        var startedAt = BusTime.start
        var waited = Duration.zero
        /// The time of its timer.
        var timer = BusTime.never

        var armedEpoch: UInt64 = 0
        var armedScopeEpoch: UInt64 = 0
        var armedRetryNows = 0
        var pass = Pass.free
        var round = 0

        var waitsForScope: Bool { variant.mode == .wait }
        var isGated: Bool { variant.isGated }
        var waitLimit: Duration? { variant.waitLimit.map { .milliseconds($0) } }
    }

    struct Gate {
        let scope: Int
        let destination: String?
        var isGone = false
        enum Phase { case open, probing, ramping }

        var phase = Phase.open
        /// The number of edges since it exists.
        var round = 0
        /// The scope's epoch of the last success.
        var reachedIn: UInt64?
        var width = 2
        var passed = 0
        var goodWidth: Int?
        var failures = 0
        /// The jobs that the server failed since its last success.
        var failed: [Int] = []
        var isOverloaded = false
        var retryAt = BusTime.past
        var pauseAt = BusTime.past
        var throttledUntil = BusTime.past
        var isUnsteady = false
        var spreadUntil = BusTime.past
        var canaryAt = BusTime.past
        /// The time of the next start at the pace.
        var dueAt = BusTime.past
        var sinceBulk = 0
        var timer = BusTime.never
        /// The position of the next job, if only a free place of the bus is missing.
        var offer: QueuePosition?
    }

    /// An effect on a job, without details that are not compared.
    enum Action: Equatable {
        case start
        case interrupt(JobState.Interruption)
        case end(Ending)
        case publish(JobChange, waited: Duration?)

        var isWait: Bool { if case .publish(.waiting, _) = self { true } else { false } }

        /// Returns the action for a change.
        ///
        /// During a wait, `waited` is not compared: the core adds a wait at its end.
        static func publishing(_ change: JobChange, waited: Duration) -> Action {
            switch change {
            case .waiting: .publish(change, waited: nil)
            // The trigger is not compared.
            case .started(let number, _): .publish(.started(number, StartReason(trigger: .first)), waited: waited)
            default: .publish(change, waited: waited)
            }
        }
    }

    let release: ReleaseRules
    let maxConcurrent: Int
    let maxPerDestination: Int
    let fleetSize: Int
    var budget: OracleBudget?
    var random: SplitMix64
    var now = BusTime.start
    var conditions: [Condition] = []
    var jobs: [Job] = []
    var gates: [Gate] = []
    /// The dirty gates.
    var dirtyGates: Set<Int> = []
    var positions = 0
    var allRetryNows = 0
    var drainEnd = BusTime.never
    var isShutDown = false
    /// The number of running attempts at the last shortage of this machine, and its time.
    var shortage: (limit: Int, since: BusTime)?
    var actions: [(job: Int, action: Action)] = []

    var running: [Int] { jobs.indices.filter { jobs[$0].state == .running } }
    var living: [Int] { jobs.indices.filter { jobs[$0].state != .ended } }

    /// Returns jobs in the order in which they may start.
    func inOrder(_ indices: [Int]) -> [Int] {
        indices.sorted { jobs[$0].priority == jobs[$1].priority ? $0 < $1 : jobs[$0].priority > jobs[$1].priority }
    }

    // MARK: - Conditions of a job

    func epoch(_ job: Job) -> UInt64 {
        let extras = job.extras.reduce(0) { $0 + conditions[$1].epoch }
        return job.variant.mode == .ignore ? extras : extras + conditions[job.scope].epoch
    }

    func retryNows(_ job: Job) -> Int { allRetryNows + conditions[job.scope].retryNows }

    func unmet(_ job: Job) -> [Int] {
        ((job.waitsForScope ? [job.scope] : []) + job.extras).filter { !conditions[$0].isOpen }
    }

    func needs(_ job: Job, _ condition: Int) -> Bool {
        ([job.scope] + job.extras + (job.state == .running ? job.sources : [])).contains(condition)
    }

    func isVoided(_ job: Job) -> Bool { epoch(job) != job.armedEpoch || retryNows(job) != job.armedRetryNows }

    /// The time of the next timer.
    var nextTime: BusTime {
        let own = living.map { jobs[$0].timer } + gates.map(\.timer) + conditions.compactMap(\.lostUntil)
        return (own + [timeOfNextPlace] + (living.isEmpty ? [] : [drainEnd])).min() ?? .never
    }

    /// Returns the time of the job's next timer.
    private func timer(_ job: Job) -> BusTime {
        switch (job.state, job.place) {
        case (.running, _):
            let limit = job.variant.timeout.map { job.startedAt + .milliseconds($0) } ?? .never
            return job.interruption == nil ? min(job.deadline, limit, job.interruptAt) : .never
        case (.ended, _): return .never
        case (_, .nowhere), (_, .paused): return job.deadline
        case (_, .backingOff): return min(job.deadline, max(job.soft, job.hard))
        case (_, .queued): return min(job.deadline, job.limit, firstVerdictDeadline(of: job.scope))
        case (_, .waiting(let condition)): return min(job.deadline, firstVerdictDeadline(of: condition))
        }
    }

    private func firstVerdictDeadline(of condition: Int) -> BusTime {
        conditions[condition].isUnknown ? conditions[condition].unknownUntil : .never
    }

    mutating func arm(_ index: Int) { jobs[index].timer = timer(jobs[index]) }

    mutating func publish(_ index: Int, _ change: JobChange) {
        actions.append((index, .publishing(change, waited: jobs[index].waited)))
    }
}
