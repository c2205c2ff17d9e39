/// The place of a condition in the tables of its bus.
package typealias ConditionIndex = Int32

/// The bus's record of a scope or another condition, and of the jobs that depend on it.
package struct ConditionRecord: Sendable {
    /// The longest time that a scope counts as lost after a lookup found no path.
    static let lossTime = Duration.seconds(1)

    private(set) var level: Level
    /// True for a monitor's condition: its jobs start if the monitor has no verdict.
    let isReachability: Bool
    /// The end of the wait for the first verdict of a monitor that is starting.
    var unknownUntil: BusTime
    /// The time of the last growth of the epoch; a baseline is no edge.
    private(set) var edgeAt = BusTime.past
    /// The end of the spread of bulk jobs after the last edge, drawn for all of the scope's gates.
    var spreadUntil = BusTime.past
    /// The time of the first canaries after the last edge, drawn likewise.
    var canaryAt = BusTime.past
    /// The time until which it counts as unsatisfied because a lookup found no path; the next evaluation ends it earlier.
    private(set) var lostUntil = BusTime.past
    /// True if jobs start because the monitor has no verdict.
    private(set) var failsOpen = false
    /// The epoch of the baseline, which is no edge.
    private var firstEpoch: UInt64 = 0
    /// The number of calls to retry now.
    var retryNows: UInt64 = 0
    /// The number of answered attempts of its jobs.
    private(set) var answers: UInt64 = 0
    /// The epoch in which the last answered attempt started.
    private var answeredEpoch: UInt64?
    /// The number of jobs that depend on it.
    var uses = 0
    /// The total closed time until ``unchangedSince``.
    private var closedBefore = Duration.zero
    /// The time since which it has been open or closed.
    private(set) var unchangedSince = BusTime.start
    /// The jobs that wait for it and whose scope it is not.
    ///
    /// A job waits for one unmet condition at a time.
    var waiting: Set<JobIndex> = []
    /// The jobs that wait for something else and react to this one: an edge ends a delay, a loss replaces a wait for another
    /// condition.
    var attentive: Set<JobIndex> = []
    /// The jobs whose running attempt is interrupted if this condition or source address is lost.
    var interruptible: Set<JobIndex> = []

    init(_ level: Level, isReachability: Bool, unknownUntil: BusTime) {
        self.level = level
        self.isReachability = isReachability
        self.unknownUntil = unknownUntil
        failsOpen = isReachability && level.isFinished
        firstEpoch = level.epoch
    }

    /// The number of edges since the baseline.
    var epoch: UInt64 { level.epoch &- firstEpoch }

    /// True if an attempt was answered since the last edge.
    var isProven: Bool { answeredEpoch == epoch }

    /// True if its jobs may start.
    var isOpen: Bool { failsOpen || (level.isKnown && isSatisfied) }

    /// True if it is satisfied, and no lookup has found its path gone.
    var isSatisfied: Bool { level.isSatisfied && !isLost }

    /// True if a lookup found no path and no evaluation came since.
    var isLost: Bool { lostUntil != .past }

    /// True if it flaps, so that it has to last before jobs other than interactive ones use it.
    var isUnsteady: Bool { isReachability && isLive && level.isUnsteady }

    /// True if a monitor watches it, so that a failure can be the network's.
    var isLive: Bool { level.isKnown && !level.isFinished }

    /// True if its monitor has no verdict yet.
    var isUnknown: Bool { isReachability && !level.isKnown }

    /// True if it will never be satisfied.
    var isHopeless: Bool { !isReachability && level.isFinished && !level.isSatisfied }

    /// Returns the total closed time, as a time: the waits of queued jobs are measured by this clock.
    func closedTime(at now: BusTime) -> BusTime { .start + closedBefore + (isOpen ? .zero : now - unchangedSince) }

    /// Applies a change that may open or close it.
    private mutating func apply(at now: BusTime, _ change: (inout Self) -> Void) {
        let (wasOpen, wasKnown) = (isOpen, level.isKnown)
        change(&self)
        guard isOpen != wasOpen || level.isKnown != wasKnown else { return }
        if !wasOpen { closedBefore += now - unchangedSince }
        unchangedSince = now
    }

    /// Takes a new level.
    mutating func update(_ new: Level, at now: BusTime) {
        guard new != level else { return }
        apply(at: now) { $0.replace(new, at: now) }
    }

    private mutating func replace(_ new: Level, at now: BusTime) {
        let old = level
        level = new
        // The end of flapping is no evaluation.
        var evaluated = old
        evaluated.isUnsteady = new.isUnsteady
        if new != evaluated { lostUntil = .past }
        if new.isKnown && !old.isKnown {
            failsOpen = false
            firstEpoch &+= new.epoch &- old.epoch
        } else if new.epoch != old.epoch {
            edgeAt = now
        }
        if isReachability && new.isFinished { failsOpen = true }
    }

    /// Records an answer to an attempt that started in an epoch.
    mutating func noteAnswer(in epoch: UInt64) {
        answers &+= 1
        answeredEpoch = epoch
    }

    /// Records that a lookup found no path before the monitor's evaluation.
    mutating func lose(at now: BusTime) {
        guard isReachability, isLive, isSatisfied else { return }
        apply(at: now) { $0.lostUntil = now + Self.lossTime }
    }

    /// Ends a loss that no evaluation ended in time.
    mutating func endLoss(at now: BusTime) { apply(at: now) { $0.lostUntil = .past } }

    /// Lets jobs start without a first verdict.
    mutating func stopWaitingForTheFirstLook(at now: BusTime) {
        apply(at: now) { record in
            record.unknownUntil = .never
            if !record.level.isKnown { record.failsOpen = true }
        }
    }
}

/// A snapshot of a condition.
package struct Level: Hashable, Sendable {
    /// True if it is satisfied.
    package var isSatisfied: Bool
    /// The condition's epoch.
    package var epoch: UInt64
    /// True if it does not change any more.
    package var isFinished: Bool
    /// True after the first verdict.
    package var isKnown: Bool
    /// True while it flaps, so that only interactive jobs use it.
    package var isUnsteady = false
    /// The number of evaluations by the monitor.
    package var evaluation: UInt64 = 0

    package init(isSatisfied: Bool, epoch: UInt64 = 0, isFinished: Bool = false, isKnown: Bool = true) {
        self.isSatisfied = isSatisfied
        self.epoch = epoch
        self.isFinished = isFinished
        self.isKnown = isKnown
    }
}
