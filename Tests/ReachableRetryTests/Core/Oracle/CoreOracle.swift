@testable import ReachableRetry

/// What the rules make of jobs, foretold: told the same as the core, it says who starts, who ends, and when something happens next.
///
/// As simple as the rules allow, and slow: plain arrays that are looked through from end to end after each event. No job is
/// registered with anything, nothing is stored that can be counted again, and numbers are those of the rules, not of the core.
struct CoreOracle {
    struct Condition {
        let isReachability: Bool
        var level: Level
        var unknownUntil: BusTime
        /// What it had been told before it was known: that was no edge.
        var baseline: UInt64
        /// The monitor did not look in time.
        var isGivenUp = false
        var edges: [BusTime] = []
        var spreadUntil = BusTime.past
        /// Until when the kernel's word that it is gone counts for more than its level.
        var lostUntil: BusTime?
        /// Since when it has been as it is, open or closed.
        var since = BusTime.start
        var retryNows = 0
        /// The number of answers to its jobs.
        var answers = 0

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

    /// Where a job that does not run is.
    enum Place: Equatable {
        case nowhere
        /// Waits to be resumed.
        case resting
        /// Waits for its scope, or for its turn.
        case inLine
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

        var state = CoreModel.State.parked
        var place = Place.nowhere
        var position: QueuePosition?
        var isPaused = false
        var isCancelled = false
        var interruption: JobState.Interruption?
        /// The last condition that it reported to wait for since its last start.
        var reportedWait: Int?

        var started = 0
        var charged = 0
        var networkFailures = 0
        var failureIndex = 0
        var connectivityIndex = 0
        var previousDelay: Duration?
        var lastFault: AttemptFailure.Fault?
        /// The scope's epoch in which it was last told that there is no network.
        var unreachableIn: UInt64?
        /// How many answers there had been when no name server answered it.
        var answersAtNameFailure: Int?
        var lastWasCharged = false
        /// What its last retry took from the budget.
        var refund: Int?

        var soft = BusTime.past
        var hard = BusTime.past
        /// When its wait in line has been too long if its scope was away all the time.
        var limit = BusTime.never
        /// The addresses that its attempt started with.
        var sources: [Int] = []
        var interruptAt = BusTime.never
        var startedAt = BusTime.start
        var waited = Duration.zero
        /// When it is looked at by itself.
        var alarm = BusTime.never

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
        var phase = GateState.Phase.open
        /// The number of edges that it has seen.
        var round = 0
        /// The scope's epoch of the last success.
        var reachedIn: UInt64?
        var width = 2
        var passed = 0
        var goodWidth: Int?
        var failures = 0
        /// The jobs that the server has failed since it served one.
        var failed: [Int] = []
        var isOverloaded = false
        var retryAt = BusTime.past
        var pauseAt = BusTime.past
        var throttledUntil = BusTime.past
        var isUnsteady = false
        var spreadUntil = BusTime.past
        /// When the next start is on time at the pace.
        var dueAt = BusTime.past
        var sinceBulk = 0
        var alarm = BusTime.never
        /// Whose turn it was when it was last looked at, if the bus had no room.
        var offer: QueuePosition?
    }

    /// What becomes of a job, as the bus is told.
    enum Deed: Equatable {
        case start
        case interrupt(JobState.Interruption)
        case end(Ending)
        case tell(JobChange, waited: Duration?)

        var isWait: Bool { if case .tell(.waiting, _) = self { true } else { false } }

        /// How long a job has waited is known at the end of a wait: what is told in one does not count it yet.
        static func telling(_ change: JobChange, waited: Duration) -> Deed {
            switch change {
            case .waiting: .tell(change, waited: nil)
            // What let it start is a remark, and no decision.
            case .started(let number, _): .tell(.started(number, StartReason(trigger: .first)), waited: waited)
            default: .tell(change, waited: waited)
            }
        }
    }

    let release: ReleaseRules
    let maxConcurrent: Int
    let maxPerDestination: Int
    var budget: OracleBudget?
    var random: SplitMix64
    var now = BusTime.start
    var conditions: [Condition] = []
    var jobs: [Job] = []
    var gates: [Gate] = []
    /// The gates at which something has happened since they were last looked at.
    var touched: Set<Int> = []
    var positions = 0
    var allRetryNows = 0
    var drainEnd = BusTime.never
    var isShutDown = false
    /// How many attempts ran when this machine ran out of something.
    var shortage: (limit: Int, since: BusTime)?
    var deeds: [(job: Int, deed: Deed)] = []

    var running: [Int] { jobs.indices.filter { jobs[$0].state == .running } }
    var living: [Int] { jobs.indices.filter { jobs[$0].state != .ended } }

    /// Jobs in the order in which they may start.
    func inOrder(_ indices: [Int]) -> [Int] {
        indices.sorted { jobs[$0].priority == jobs[$1].priority ? $0 < $1 : jobs[$0].priority > jobs[$1].priority }
    }

    // MARK: - What a job sees

    func epoch(_ job: Job) -> UInt64 {
        let extras = job.extras.reduce(0) { $0 + conditions[$1].epoch }
        return job.variant.mode == .ignore ? extras : extras + conditions[job.scope].epoch
    }

    func retryNows(_ job: Job) -> Int { allRetryNows + conditions[job.scope].retryNows }

    func unmet(_ job: Job) -> [Int] {
        ((job.waitsForScope ? [job.scope] : []) + job.extras).filter { !conditions[$0].isOpen }
    }

    func isVoided(_ job: Job) -> Bool { epoch(job) != job.armedEpoch || retryNows(job) != job.armedRetryNows }

    /// When something happens next by itself.
    var nextTime: BusTime {
        let own = living.map { jobs[$0].alarm } + gates.map(\.alarm) + conditions.compactMap(\.lostUntil)
        return (own + [timeOfNextPlace] + (living.isEmpty ? [] : [drainEnd])).min() ?? .never
    }

    /// When something happens to the job by itself, as things are.
    private func alarm(_ job: Job) -> BusTime {
        switch (job.state, job.place) {
        case (.running, _):
            let limit = job.variant.timeout.map { job.startedAt + .milliseconds($0) } ?? .never
            return job.interruption == nil ? min(job.deadline, limit, job.interruptAt) : .never
        case (.ended, _), (.failed, _): return .never
        case (_, .nowhere), (_, .resting): return job.deadline
        case (_, .backingOff): return min(job.deadline, max(job.soft, job.hard))
        case (_, .inLine): return min(job.deadline, job.limit, firstLook(at: job.scope))
        case (_, .waiting(let condition)): return min(job.deadline, firstLook(at: condition))
        }
    }

    private func firstLook(at condition: Int) -> BusTime {
        conditions[condition].isUnknown ? conditions[condition].unknownUntil : .never
    }

    mutating func arm(_ index: Int) { jobs[index].alarm = alarm(jobs[index]) }

    mutating func tell(_ index: Int, _ change: JobChange) { deeds.append((index, .telling(change, waited: jobs[index].waited))) }
}
