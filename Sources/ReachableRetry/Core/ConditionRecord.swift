/// The place of a condition in the tables of its bus.
package typealias ConditionIndex = Int32

/// What the bus knows of a scope or another condition, and which jobs depend on it.
package struct ConditionRecord: Sendable {
    /// How long a scope counts as lost at most that the kernel said is gone.
    static let lossTime = Duration.seconds(1)

    private(set) var level: Level
    /// Whether it is a monitor's: without one that sees, its jobs go ahead.
    let isReachability: Bool
    /// Until when jobs wait for the first look of a monitor that is starting.
    var unknownUntil: BusTime
    /// When the epoch grew last; a baseline is no edge.
    private(set) var edgeAt = BusTime.past
    /// Until when bulk jobs wait after the last edge, as drawn for all of its gates.
    var spreadUntil = BusTime.past
    /// The time until which it counts as unsatisfied because the kernel said that it is gone; ended by the next evaluation.
    private(set) var lostUntil = BusTime.past
    /// Whether jobs go ahead because nobody can say anything.
    private(set) var failsOpen = false
    /// The epoch at which the condition became known, which is no edge for jobs that had not waited for it.
    private var firstEpoch: UInt64 = 0
    /// How often somebody asked to retry now.
    var retryNows: UInt64 = 0
    /// How many attempts of its jobs were answered.
    var answers: UInt64 = 0
    /// How many jobs depend on it.
    var uses = 0
    /// For how long it was closed before it last closed or opened.
    private var closedBefore = Duration.zero
    /// Since when it has been as it is, open or closed.
    private(set) var unchangedSince = BusTime.start
    /// The jobs that wait for it without it being their scope; of those with several unmet conditions each waits for one.
    var waiting: Set<JobIndex> = []
    /// The jobs that wait for something else, and are to be looked at when this changes: an edge ends a delay, a loss a wait
    /// that was for another condition.
    var attentive: Set<JobIndex> = []
    /// The jobs whose running attempt is to be interrupted if it is lost: as a condition, or as a source address.
    var interruptible: Set<JobIndex> = []

    init(_ level: Level, isReachability: Bool, unknownUntil: BusTime) {
        self.level = level
        self.isReachability = isReachability
        self.unknownUntil = unknownUntil
        failsOpen = isReachability && level.isFinished
        firstEpoch = level.epoch
    }

    /// How often it became satisfied since the bus knows it.
    var epoch: UInt64 { level.epoch &- firstEpoch }

    /// Whether jobs may go on.
    var isOpen: Bool { failsOpen || (level.isKnown && isSatisfied) }

    /// If true, it is satisfied as far as is known, by the monitor and the kernel.
    var isSatisfied: Bool { level.isSatisfied && !isLost }

    /// If true, the kernel said that it is gone, and it has not been evaluated since.
    var isLost: Bool { lostUntil != .past }

    /// If true, it changed so often that it has to last for a while before jobs rely on it.
    var isUnsteady: Bool { isReachability && isLive && level.isUnsteady }

    /// Whether somebody watches, so that a failure can be the network's.
    var isLive: Bool { level.isKnown && !level.isFinished }

    /// Whether a monitor has not looked yet.
    var isUnknown: Bool { isReachability && !level.isKnown }

    /// Whether it will never be satisfied.
    var isHopeless: Bool { !isReachability && level.isFinished && !level.isSatisfied }

    /// For how long it has been closed, as a moment: jobs that stand in line wait by this clock.
    func closedTime(at now: BusTime) -> BusTime { .start + closedBefore + (isOpen ? .zero : now - unchangedSince) }

    /// Does what may open or close it.
    private mutating func apply(at now: BusTime, _ change: (inout Self) -> Void) {
        let (wasOpen, wasKnown) = (isOpen, level.isKnown)
        change(&self)
        guard isOpen != wasOpen || level.isKnown != wasKnown else { return }
        if !wasOpen { closedBefore += now - unchangedSince }
        unchangedSince = now
    }

    /// Takes over a new level.
    mutating func update(_ new: Level, at now: BusTime) {
        guard new != level else { return }
        apply(at: now) { $0.replace(new, at: now) }
    }

    private mutating func replace(_ new: Level, at now: BusTime) {
        let old = level
        level = new
        // That it is steady again is no evaluation.
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

    /// The kernel says that it is gone, before its monitor has seen that.
    mutating func lose(at now: BusTime) {
        guard isReachability, isLive, isSatisfied else { return }
        apply(at: now) { $0.lostUntil = now + Self.lossTime }
    }

    /// No evaluation came in time.
    mutating func endLoss(at now: BusTime) { apply(at: now) { $0.lostUntil = .past } }

    /// Nobody has looked in time: jobs go ahead.
    mutating func stopWaitingForTheFirstLook(at now: BusTime) {
        apply(at: now) { record in
            record.unknownUntil = .never
            if !record.level.isKnown { record.failsOpen = true }
        }
    }
}

/// A condition at one moment, as the bus sees it.
package struct Level: Hashable, Sendable {
    /// Whether jobs may go on.
    package var isSatisfied: Bool
    /// How often it became so, or changed so much that waiting makes no sense.
    package var epoch: UInt64
    /// Whether this is how it stays.
    package var isFinished: Bool
    /// Whether anybody has looked yet.
    package var isKnown: Bool
    /// If true, it changed so often that only interactive jobs rely on it yet.
    package var isUnsteady = false
    /// Counts the evaluations that the monitor has told of.
    package var evaluation: UInt64 = 0

    package init(isSatisfied: Bool, epoch: UInt64 = 0, isFinished: Bool = false, isKnown: Bool = true) {
        self.isSatisfied = isSatisfied
        self.epoch = epoch
        self.isFinished = isFinished
        self.isKnown = isKnown
    }
}
