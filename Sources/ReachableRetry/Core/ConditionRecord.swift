internal import DequeModule

/// What the bus knows of a scope or another condition, and which jobs depend on it.
package struct ConditionRecord: Sendable {
    /// How long a verdict is distrusted that the kernel just contradicted.
    static let distrustTime = Duration.seconds(1)

    private(set) var level: Level
    /// Whether it is a monitor's: without one that sees, its jobs go ahead.
    let isReachability: Bool
    /// Until when jobs wait for the first look of a monitor that is starting.
    var unknownUntil: BusTime
    /// When the epoch grew last; a baseline is no edge.
    private(set) var edgeAt = BusTime.past
    /// The last edges, as many as are not too many, and until when it has to be quiet because there were more.
    private var edges: Deque<BusTime> = []
    private(set) var calmAt = BusTime.past
    /// Until when bulk jobs wait after the last edge, as drawn for all of its gates.
    var spreadUntil = BusTime.past
    /// Until when the kernel's contradiction counts for more than the level.
    var distrustedUntil = BusTime.past
    /// Whether jobs go ahead because nobody can say anything.
    private(set) var failsOpen = false
    /// The epoch at which the condition became known, which is no edge for jobs that had not waited for it.
    private var firstEpoch: UInt64 = 0
    /// How often somebody asked to retry now.
    var nudges: UInt64 = 0
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
    /// The jobs whose running attempt is to be interrupted if it is lost.
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
    var isOpen: Bool { failsOpen || (level.isKnown && level.isSatisfied) }

    /// Whether somebody watches, so that a failure can be the network's.
    var isLive: Bool { level.isKnown && !level.isFinished }

    /// Whether a monitor has not looked yet.
    var isUnknown: Bool { isReachability && !level.isKnown }

    /// Whether it will never be satisfied.
    var isHopeless: Bool { !isReachability && level.isFinished && !level.isSatisfied }

    /// For how long it has been closed, as a moment: jobs that stand in line wait by this clock.
    func closedTime(at now: BusTime) -> BusTime { .start + closedBefore + (isOpen ? .zero : now - unchangedSince) }

    /// Does what may open or close it.
    private mutating func turn(at now: BusTime, _ change: (inout Self) -> Void) {
        let (wasOpen, wasKnown) = (isOpen, level.isKnown)
        change(&self)
        guard isOpen != wasOpen || level.isKnown != wasKnown else { return }
        if !wasOpen { closedBefore += now - unchangedSince }
        unchangedSince = now
    }

    /// Takes over a new level.
    mutating func update(_ new: Level, at now: BusTime) {
        guard new != level else { return }
        turn(at: now) { $0.replace(new, at: now) }
    }

    private mutating func replace(_ new: Level, at now: BusTime) {
        let old = level
        level = new
        distrustedUntil = .past
        if new.isKnown && !old.isKnown {
            failsOpen = false
            firstEpoch &+= new.epoch &- old.epoch
        } else if new.epoch != old.epoch {
            edgeAt = now
            edges.append(now)
            if edges.count > ReleaseRules.mostEdges, edges.removeFirst() + ReleaseRules.edgeSpan >= now {
                calmAt = now + ReleaseRules.calm
            }
        }
        if isReachability && new.isFinished { failsOpen = true }
    }

    /// Nobody has looked in time: jobs go ahead.
    mutating func stopWaitingForTheFirstLook(at now: BusTime) {
        turn(at: now) { record in
            record.unknownUntil = .never
            if !record.level.isKnown { record.failsOpen = true }
        }
    }
}
