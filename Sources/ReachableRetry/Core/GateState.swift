internal import DequeModule

/// What jobs of one scope and destination have in common: how fast they are let go, and whether the other side was reached.
///
/// While the scope is unsatisfied nothing leaves it. After an edge it goes through its phases:
///
/// ```
/// open ──edge, failure of the network──▶ probing ──success──▶ ramping ──nobody left to wait──▶ open
///                                          ▲  ╰─failure: backoff, another canary  │
///                                          ╰──────────failure of the network──────╯
/// ```
///
/// Pure: it is told the time, the rules and what chance says.
package struct GateState: Sendable {
    package enum Phase: Hashable, Sendable {
        /// Nothing is amiss, and nobody waits.
        case open
        /// One attempt tries the way for all.
        case probing
        /// As many at a time as have proved possible.
        case ramping
    }

    /// How an attempt was let go.
    enum Pass: UInt8, Sendable {
        /// Not counted, because nothing was limited, or not any more.
        case free
        case canary
        /// An interactive job beside the canary or the window.
        case bypass
        case window
    }

    /// How long after an edge a silent server is taken for a network that is still coming up.
    static let settlingTime = Duration.seconds(30)

    struct Run {
        var start: BusTime
        var key: JobKey
        var attempt: Int32
    }

    package internal(set) var phase = Phase.open
    /// The scope's epoch in which a server answered last.
    private(set) var answerEpoch: UInt64?
    /// How many jobs use it.
    var uses = 0
    /// How many attempts have a place here, those among them that no longer count for the window.
    var running = 0
    /// Grows with each edge: attempts that started before it say nothing about what came after.
    private(set) var round: UInt32 = 0
    private(set) var hasCanary = false
    private(set) var bypassing = 0
    private(set) var inFlight = 0
    /// How many attempts may run at a time while ramping, and how many have succeeded since that last grew.
    private(set) var window = ReleaseRules.firstWindow
    private(set) var successes = 0
    /// Up to where the window is doubled: the last width that was borne.
    private(set) var goodWidth = Int.max
    /// The failures of canaries in a row, and until when the next one waits.
    private(set) var failures = 0
    private(set) var retryAt = BusTime.past
    /// The same after a failure that was the job's or the server's; a job that is alone has only delays of its own to keep.
    private(set) var pauseAt = BusTime.past
    /// The jobs that the server has failed since it served one.
    private(set) var failed: [JobKey] = []
    /// If true, one job tries for all because the server has too much to do: that it answers is no news then.
    private(set) var isOverloaded = false
    /// Until when the server does not want to be asked, and the job that it told.
    private(set) var throttledUntil = BusTime.past
    private(set) var throttledBy: JobID?
    /// If true, jobs that are not interactive wait for the path to last.
    private(set) var isUnsteady = false
    private(set) var spreadUntil = BusTime.past
    /// When the next start would be on time, at the rules' pace.
    private(set) var dueAt = BusTime.past
    private(set) var sinceBulk = 0
    /// Attempts that are counted, in the order of their starts; some have ended.
    private var runs: Deque<Run> = []

    /// The jobs in line, by lane.
    var queues = GateQueues()
    /// Whether somebody stands in line who was not told to wait for the network, because it was there, or whose wait has no limit
    /// yet, because nobody had looked.
    var hasUnreported = false
    /// The gate's place among those with a job to let go.
    var ready = QueuePosition.none

    package init() {}

    package mutating func noteAnswer(in epoch: UInt64) { answerEpoch = epoch }

    /// Whether silence is more likely the network's than the server's: nobody got through since the edge, and it was just now.
    package func blamesTheNetwork(epoch: UInt64, edgeAt: BusTime, now: BusTime) -> Bool {
        answerEpoch != epoch && edgeAt != .past && now <= edgeAt + Self.settlingTime
    }

    // MARK: - What happens to the network

    /// The scope's epoch has grown: the way is another one, and has to be tried anew.
    ///
    /// - Parameters:
    ///   - isUnsteady: whether there were too many edges, so that the path has to last for a while first.
    ///   - spreadUntil: until when bulk jobs wait, so that not all machines come back together.
    mutating func noteEdge(isUnsteady: Bool, spreadUntil: BusTime, _ rules: ReleaseRules) {
        guard rules.hasCanaries else { return }
        (phase, round) = (.probing, round &+ 1)
        // What runs still takes its share of the way.
        (hasCanary, bypassing, inFlight) = (false, 0, inFlight + bypassing)
        (failures, retryAt, pauseAt, isOverloaded) = (0, .past, .past, false)
        (self.isUnsteady, self.spreadUntil) = (isUnsteady, spreadUntil)
    }

    /// Somebody wants to retry now: what the gate holds back of its own accord may go, what a server ordered not.
    mutating func noteRetryNow() { (failures, retryAt, pauseAt, spreadUntil, isUnsteady) = (0, .past, .past, .past, false) }

    /// The path has lasted.
    mutating func noteSteadiness() { isUnsteady = false }

    // MARK: - What becomes of attempts

    mutating func noteStart(
        _ pass: Pass, _ queueClass: QueueClass, _ key: JobKey, _ attempt: Int32, _ rules: ReleaseRules, at now: BusTime
    ) {
        guard queueClass.isGated else { return }
        // With canaries only while jobs are held back, and never a person's.
        if let pace = rules.pace, !rules.hasCanaries || phase != .open && queueClass != .interactive {
            dueAt = max(dueAt, now) + pace.interval
        }
        sinceBulk = queueClass == .bulk ? 0 : min(sinceBulk + 1, ReleaseRules.bulkShare)
        switch pass {
        case .free: return
        case .canary: hasCanary = true
        case .bypass: bypassing += 1
        case .window: break
        }
        if pass != .bypass { inFlight += 1 }
        runs.append(Run(start: now, key: key, attempt: attempt))
    }

    /// An attempt has ended, or has run for so long that it no longer counts.
    mutating func noteEnd(_ pass: Pass, of round: UInt32) {
        guard pass != .free else { return }
        if round == self.round, pass == .canary { hasCanary = false }
        if round == self.round, pass == .bypass { bypassing -= 1 } else { inFlight -= 1 }
    }

    /// The server answered an attempt of this round, if only to say that it has failed: the way is there.
    mutating func noteAnswer(of round: UInt32, _ rules: ReleaseRules) {
        guard round == self.round, !isOverloaded else { return }
        (failures, retryAt, pauseAt) = (0, .past, .past)
        if phase == .probing { (phase, window, successes) = (.ramping, min(ReleaseRules.firstWindow, rules.maxInFlight), 0) }
    }

    /// An attempt of this round got through.
    mutating func notePassage(of round: UInt32, _ rules: ReleaseRules) {
        guard round == self.round else { return }
        (failed, isOverloaded) = ([], false)
        let isFirst = phase == .probing
        noteAnswer(of: round, rules)
        guard phase == .ramping, !isFirst else { return }
        successes += 1
        guard successes >= window else { return }
        window = min(rules.maxInFlight, window < goodWidth ? min(goodWidth, window * 2) : window + 1)
        successes = 0
    }

    /// The network failed an attempt of this round on a path that is there.
    ///
    /// - Returns: until when the job waits.
    mutating func noteNetworkFailure(
        of round: UInt32, epoch: UInt64, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime
    ) -> BusTime {
        // One outage fails many attempts: those that ran beside the first one wait as long as that.
        if phase == .probing, retryAt > now { return retryAt }
        guard round == self.round else { return now + rules.delay(afterFailure: 1, &random) }
        // If others have got through meanwhile it may be the job's own trouble: another one tries at once.
        let isFirst = failures == 0 && answerEpoch == epoch
        (phase, isOverloaded) = (.probing, false)
        failures += 1
        let delay = rules.delay(afterFailure: failures, &random)
        if !isFirst { retryAt = now + delay }
        return now + delay
    }

    /// Counts a job that the server failed; returns true if so many others were failed in a row that it has too much to do.
    ///
    /// One job alone may be the reason itself.
    mutating func countsAsOverload(_ key: JobKey) -> Bool {
        if !failed.contains(key) { failed.append(key) }
        guard failed.count >= ReleaseRules.mostFailed else { return false }
        failed = []
        return true
    }

    /// The server has too much to do: fewer at a time, and when it fails one at a time, too, one job tries for all.
    ///
    /// - Parameter isShared: if true, it has failed so many others as well.
    mutating func noteOverload(
        of round: UInt32, isShared: Bool, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime
    ) {
        guard round == self.round else { return }
        if phase == .ramping, window > 1 {
            goodWidth = window / 2
            (window, successes) = (goodWidth, 0)
        } else if phase != .open || isShared {
            (phase, isOverloaded) = (.probing, true)
        }
        pause(isOverload: true, rules, &random, at: now)
    }

    /// An attempt got no answer, for a reason that cannot be told: the next canary waits.
    mutating func noteSilence(of round: UInt32, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime) {
        guard round == self.round else { return }
        pause(isOverload: false, rules, &random, at: now)
    }

    private mutating func pause(isOverload: Bool, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime) {
        guard phase == .probing, max(retryAt, pauseAt) <= now else { return }
        failures += 1
        pauseAt = now + rules.delay(afterFailure: failures, isOverload: isOverload, &random)
    }

    /// The server wants to be left alone.
    ///
    /// Those who gather meanwhile come back little by little.
    mutating func throttle(until time: BusTime, by id: JobID?, _ rules: ReleaseRules) {
        if time > throttledUntil { (throttledUntil, throttledBy) = (time, id) }
        if rules.hasCanaries, phase == .open { (phase, window, successes) = (.ramping, ReleaseRules.firstWindow, 0) }
    }

    /// A person insists: what the server ordered holds no more.
    mutating func forgetHardDelay() { throttledUntil = .past }

    // MARK: - What may go

    enum Permission: Equatable {
        case granted(Pass)
        /// Not before a time, or something happens.
        case later(BusTime, QueueReason)
    }

    /// Whether the next job of a lane may start.
    ///
    /// - Parameter hasPaused: whether it is alone here, and has waited for a delay of its own.
    func permission(_ queueClass: QueueClass, hasPaused: Bool, _ rules: ReleaseRules, at now: BusTime) -> Permission {
        if throttledUntil > now, queueClass != .bypass { return .later(throttledUntil, .throttled(by: throttledBy)) }
        guard queueClass.isGated else { return .granted(.free) }
        guard rules.hasCanaries else { return paced(.free, rules, at: now) }
        if phase == .open { return .granted(.window) }
        let usual = usualPermission(queueClass, hasPaused: hasPaused, rules, at: now)
        if case .later = usual, queueClass == .interactive, bypassing < rules.interactiveBypass { return .granted(.bypass) }
        return usual
    }

    private func usualPermission(_ queueClass: QueueClass, hasPaused: Bool, _ rules: ReleaseRules, at now: BusTime) -> Permission {
        // Its end is told by the monitor, not by a timer.
        if queueClass != .interactive, isUnsteady { return .later(.never, .unsteady) }
        if queueClass == .bulk, spreadUntil > now { return .later(spreadUntil, .spread) }
        let isFull = phase == .probing ? hasCanary : inFlight >= window
        // The oldest of those that run will soon have run for long.
        if isFull {
            let end = runs.first.map { $0.start + ReleaseRules.longRun } ?? .never
            return .later(end, phase == .probing ? .canary : .full(inFlight))
        }
        if phase == .probing {
            let earliest = hasPaused ? retryAt : max(retryAt, pauseAt)
            return earliest > now ? .later(earliest, .failed) : .granted(.canary)
        }
        return queueClass == .interactive ? .granted(.window) : paced(.window, rules, at: now)
    }

    private func paced(_ pass: Pass, _ rules: ReleaseRules, at now: BusTime) -> Permission {
        guard let pace = rules.pace else { return .granted(pass) }
        let earliest = dueAt + (.zero - pace.tolerance)
        return earliest > now ? .later(earliest, .pace) : .granted(pass)
    }

    /// The lanes in the order in which they are asked.
    ///
    /// - Parameter isLimited: whether jobs may have to wait for others, so that bulk jobs need a share.
    func queueClasses(isLimited: Bool) -> [QueueClass] {
        let isBulksTurn =
            isLimited && sinceBulk + 1 >= ReleaseRules.bulkShare && !queues[.bulk].isEmpty && queues[.interactive].isEmpty
        return isBulksTurn ? Self.bulkFirstOrder : Self.usualOrder
    }

    private static let usualOrder: [QueueClass] = [.unbound, .bypass, .interactive, .normal, .bulk]
    private static let bulkFirstOrder: [QueueClass] = [.unbound, .bypass, .bulk, .normal]

    /// The attempts that are counted, in the order of their starts; some have ended.
    var countedRuns: [Run] { Array(runs) }

    /// The attempts that have run for long since this was last asked, those that have ended not among them.
    mutating func takeLongRuns(at now: BusTime, isRunning: (JobKey, Int32) -> Bool) -> [JobKey] {
        var long: [JobKey] = []
        // Behind one that goes on there may be many that have ended.
        if runs.count > 2 * (inFlight + bypassing) + 64 { runs.removeAll { !isRunning($0.key, $0.attempt) } }
        while let run = runs.first {
            let isOver = !isRunning(run.key, run.attempt)
            guard isOver || run.start + ReleaseRules.longRun <= now else { break }
            runs.removeFirst()
            if !isOver { long.append(run.key) }
        }
        return long
    }

    /// Nobody waits any more: unless the server is to be left alone, nothing has to be limited.
    mutating func noteIdle(at now: BusTime) {
        if phase == .ramping, throttledUntil <= now { (phase, successes) = (.open, 0) }
    }
}

/// The lines of a gate, by lane.
struct GateQueues: Sendable {
    private var nested = GateQueue()
    private var unbound = GateQueue()
    private var bypass = GateQueue()
    private var interactive = GateQueue()
    private var normal = GateQueue()
    private var bulk = GateQueue()

    subscript(queueClass: QueueClass) -> GateQueue {
        _read {
            switch queueClass {
            case .nested: yield nested
            case .unbound: yield unbound
            case .bypass: yield bypass
            case .interactive: yield interactive
            case .normal: yield normal
            case .bulk: yield bulk
            }
        }
        _modify {
            switch queueClass {
            case .nested: yield &nested
            case .unbound: yield &unbound
            case .bypass: yield &bypass
            case .interactive: yield &interactive
            case .normal: yield &normal
            case .bulk: yield &bulk
            }
        }
    }

    /// How many stand in the lanes that a release policy decides about.
    var gatedCount: Int { interactive.count + normal.count + bulk.count }

    var isEmpty: Bool { gatedCount == 0 && unbound.isEmpty && bypass.isEmpty && nested.isEmpty }
}

/// The gates, by scope and destination.
struct GateTable: Sendable {
    /// How many gates without jobs are remembered; their memory matters for half a minute only.
    static let mostIdle = 1024

    private struct Name {
        var scope: ConditionIndex
        var destination: String?
    }

    private var gates: [GateState] = []
    private var names: [Name] = []
    /// By scope first: a scope leaves with its gates, however many others there are.
    private var indices: [ConditionIndex: [String?: Int32]] = [:]
    private var free: [Int32] = []
    private var idle = 0

    var count: Int { gates.count - free.count }

    /// The gate for a job; it is kept until ``release(_:)``.
    mutating func use(_ scope: ConditionIndex, _ destination: String?) -> Int32 {
        if let index = indices[scope]?[destination] {
            if self[index].uses == 0 { idle -= 1 }
            self[index].uses += 1
            return index
        }
        let name = Name(scope: scope, destination: destination)
        var gate = GateState()
        gate.uses = 1
        let index: Int32
        if let place = free.popLast() {
            index = place
            gates[Int(place)] = gate
            names[Int(place)] = name
        } else {
            index = Int32(gates.count)
            gates.append(gate)
            names.append(name)
        }
        indices[scope, default: [:]][destination] = index
        return index
    }

    mutating func release(_ index: Int32) {
        self[index].uses -= 1
        guard self[index].uses == 0 else { return }
        idle += 1
        if idle > Self.mostIdle { removeIdle() }
    }

    mutating func removeAll(of scope: ConditionIndex) {
        for index in (indices.removeValue(forKey: scope) ?? [:]).values { vacate(index) }
    }

    private mutating func removeIdle() {
        for (name, index) in indices.flatMap({ scope, gates in gates.map { (Name(scope: scope, destination: $0), $1) } })
        where self[index].uses == 0 {
            indices[name.scope]?.removeValue(forKey: name.destination)
            if indices[name.scope]?.isEmpty == true { indices[name.scope] = nil }
            vacate(index)
        }
    }

    private mutating func vacate(_ index: Int32) {
        if self[index].uses == 0 { idle -= 1 }
        gates[Int(index)] = GateState()
        free.append(index)
    }

    func destination(_ index: Int32) -> String? { names[Int(index)].destination }

    func scope(_ index: Int32) -> ConditionIndex { names[Int(index)].scope }

    /// The gates of a scope, in no order.
    func all(of scope: ConditionIndex) -> some Sequence<Int32> { (indices[scope] ?? [:]).values }

    /// A gate that exists.
    subscript(index: Int32) -> GateState {
        _read { yield gates[Int(index)] }
        // In its place: its lines are long.
        _modify { yield &gates[Int(index)] }
    }
}
