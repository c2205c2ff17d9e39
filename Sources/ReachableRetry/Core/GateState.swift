internal import DequeModule

/// The gate of one scope and destination: decides how fast their jobs start.
///
/// While the scope is unsatisfied no job starts. After an edge the gate goes through its phases:
///
/// ```
/// open ──edge, failure of the network──▶ probing ──success──▶ ramping ──no job waits──▶ open
///                                          ▲  ╰─failure: backoff, another canary  │
///                                          ╰──────────failure of the network──────╯
/// ```
///
/// A backlog that something else than the network held takes an open gate to `ramping`, or to `probing` without an answer since
/// the last edge.
///
/// Pure: time, rules and random numbers are arguments.
package struct GateState: Sendable {
    enum Phase: Hashable, Sendable {
        /// The path is proved, and no job waits.
        case open
        /// One attempt, the canary, tries the path for all.
        case probing(Probe)
        /// A growing window of attempts runs at a time; the successes since it last grew.
        case ramping(successes: Int)
    }

    /// The search for an attempt that proves the path.
    struct Probe: Hashable, Sendable {
        /// The failures of canaries in a row, and the earliest time of the next canary.
        var failures = 0
        var retryAt = BusTime.past
        /// The same after a failure of the job or the server.
        ///
        /// A job that is alone at the gate ignores it.
        var pauseAt = BusTime.past
        /// True while one job tries for all because the server is overloaded; an answer then proves nothing.
        var isOverloaded = false
    }

    /// The way in which an attempt passed the gate.
    enum Pass: UInt8, Sendable {
        /// Not counted.
        case free
        case canary
        /// An interactive job beside the canary or the window.
        case bypass
        case window
    }

    /// The time after an edge in which silence is blamed on the network.
    static let settlingTime = Duration.seconds(30)

    struct Run {
        var start: BusTime
        var key: JobKey
        var attempt: Int32
    }

    private(set) var phase = Phase.open
    /// The scope's epoch of the last answer.
    private(set) var answerEpoch: UInt64?
    /// The number of jobs and stored backlogs that use it.
    var uses = 0
    /// The number of workers with more stored jobs for it than they have submitted.
    var storedBacklogs = 0
    /// The number of attempts with a place, including those outside of the window.
    var running = 0
    /// The number of edges: attempts of earlier rounds prove nothing about this one.
    private(set) var round: UInt32 = 0
    private(set) var hasCanary = false
    private(set) var bypassing = 0
    private(set) var inFlight = 0
    /// The limit of attempts while ramping.
    private(set) var window = ReleaseRules.firstWindow
    /// The last width that the server bore; the window doubles up to it.
    private(set) var goodWidth = Int.max
    /// The jobs that the server failed since its last success.
    private(set) var failed: [JobKey] = []
    /// The end of the delay that the server ordered, and the job that received it.
    private(set) var throttledUntil = BusTime.past
    private(set) var throttledBy: JobID?
    /// True while jobs other than interactive ones wait for the path to last.
    private(set) var isUnsteady = false
    private(set) var spreadUntil = BusTime.past
    /// The time before which no canary starts, because other machines regain the server, too.
    private(set) var canaryAt = BusTime.past
    /// The time of the next start at the rules' pace.
    private(set) var dueAt = BusTime.past
    private(set) var sinceBulk = 0
    /// The counted attempts in the order of their starts, including some that have ended.
    private var runs: Deque<Run> = []

    /// The queued jobs, by class.
    var queues = GateQueues()
    /// The queued jobs that have not reported that they wait for the network: it was there, or had no verdict.
    var unreported: Set<JobIndex> = []
    /// The gate's candidate.
    var ready: RetryBusCore.Candidate?

    package init() {}

    /// The search for an attempt that proves the path; changes apply only while there is one.
    private(set) var probe: Probe? {
        get { if case .probing(let probe) = phase { probe } else { nil } }
        set { if let newValue, isProbing { phase = .probing(newValue) } }
    }

    package var isOpen: Bool { phase == .open }

    var isProbing: Bool { if case .probing = phase { true } else { false } }

    var isRamping: Bool { if case .ramping = phase { true } else { false } }

    /// True while one job tries for all because the server is overloaded.
    var isOverloaded: Bool { probe?.isOverloaded == true }

    package mutating func noteAnswer(in epoch: UInt64) { answerEpoch = epoch }

    // MARK: - Edges

    /// Starts probing after an edge of the scope.
    mutating func noteEdge(_ scope: ConditionRecord, _ rules: ReleaseRules) {
        guard rules.hasCanaries else { return }
        (phase, round) = (.probing(Probe()), round &+ 1)
        // Running attempts still use the path.
        (hasCanary, bypassing, inFlight) = (false, 0, inFlight + bypassing)
        (isUnsteady, spreadUntil, canaryAt) = (scope.isUnsteady, scope.spreadUntil, scope.canaryAt)
    }

    /// Releases a backlog in a growing window, whatever held it.
    ///
    /// - Parameter isProven: True if an attempt was answered since the scope's last edge; otherwise a canary goes first.
    mutating func noteBacklog(isProven: Bool, _ rules: ReleaseRules) {
        guard rules.hasCanaries, isOpen else { return }
        let width = min(window, rules.maxInFlight)
        // Jobs that fit in beside those that run need no steps.
        let queued = queues.gatedCount
        guard storedBacklogs > 0 || queued > 0 && inFlight + queued > (isProven ? width : 1) else { return }
        (phase, window) = (isProven ? .ramping(successes: 0) : .probing(Probe()), width)
    }

    /// Ends the gate's own delays, and not those ordered by a server.
    mutating func noteRetryNow() {
        probe = Probe(isOverloaded: isOverloaded)
        (isUnsteady, spreadUntil, canaryAt) = (false, .past, .past)
    }

    /// Records that the path has lasted.
    mutating func noteSteadiness() { isUnsteady = false }

    // MARK: - Attempts

    mutating func noteStart(
        _ pass: Pass, _ queueClass: QueueClass, _ key: JobKey, _ attempt: Int32, _ rules: ReleaseRules, at now: BusTime
    ) {
        guard queueClass.isGated else { return }
        // With canaries only while jobs wait, and never for interactive jobs.
        if let pace = rules.pace, !rules.hasCanaries || !isOpen && queueClass != .interactive {
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

    /// Records that an attempt has ended or no longer counts.
    mutating func noteEnd(_ pass: Pass, of round: UInt32) {
        guard pass != .free else { return }
        if round == self.round, pass == .canary { hasCanary = false }
        if round == self.round, pass == .bypass { bypassing -= 1 } else { inFlight -= 1 }
    }

    /// Records an answer to an attempt of this round, which proves the path even if it is an error.
    mutating func noteAnswer(of round: UInt32, _ rules: ReleaseRules) {
        guard round == self.round, isProbing, !isOverloaded else { return }
        (phase, window) = (.ramping(successes: 0), min(ReleaseRules.firstWindow, rules.maxInFlight))
    }

    /// Records a success of this round.
    mutating func notePassage(of round: UInt32, _ rules: ReleaseRules) {
        guard round == self.round else { return }
        failed.removeAll()
        guard case .ramping(let before) = phase else {
            probe?.isOverloaded = false
            return noteAnswer(of: round, rules)
        }
        let successes = before + 1
        phase = .ramping(successes: successes)
        guard successes >= window else { return }
        let doubles = window < goodWidth && rules.fleetSize <= ReleaseRules.crowd
        (phase, window) = (.ramping(successes: 0), min(rules.maxInFlight, doubles ? min(goodWidth, window * 2) : window + 1))
    }

    /// Records a network failure of this round on a satisfied path.
    ///
    /// - Returns: The time until which the job waits.
    mutating func noteNetworkFailure(
        of round: UInt32, epoch: UInt64, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime
    ) -> BusTime {
        // One outage fails many attempts, which share one delay.
        if let probe, probe.retryAt > now { return probe.retryAt }
        guard round == self.round else { return now + rules.delay(afterFailure: 1, &random) }
        // After successes of other jobs the trouble may be the job's own, so another one tries at once.
        var probe = probe ?? Probe()
        let isFirst = probe.failures == 0 && answerEpoch == epoch
        probe.isOverloaded = false
        probe.failures += 1
        let delay = delay(after: probe.failures, isOverload: false, rules, &random)
        if !isFirst { probe.retryAt = now + delay }
        phase = .probing(probe)
        return now + delay
    }

    /// Counts a job that the server failed; returns true if several jobs in a row make it an overload.
    ///
    /// One job alone may be the cause itself.
    mutating func countsAsOverload(_ key: JobKey) -> Bool {
        if !failed.contains(key) { failed.append(key) }
        guard failed.count >= ReleaseRules.mostFailed else { return false }
        failed = []
        return true
    }

    /// Narrows the window after an overload; if the server also fails single attempts, one job tries for all.
    ///
    /// - Parameter isShared: True if the server failed several jobs in a row.
    mutating func noteOverload(
        of round: UInt32, isShared: Bool, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime
    ) {
        guard round == self.round else { return }
        if isRamping, window > 1 {
            goodWidth = window / 2
            (phase, window) = (.ramping(successes: 0), goodWidth)
        } else if !isOpen || isShared {
            var probe = probe ?? Probe()
            probe.isOverloaded = true
            phase = .probing(probe)
        }
        pause(isOverload: true, rules, &random, at: now)
    }

    /// Delays the next canary after an attempt without an answer.
    mutating func noteSilence(of round: UInt32, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime) {
        guard round == self.round else { return }
        pause(isOverload: false, rules, &random, at: now)
    }

    private mutating func pause(isOverload: Bool, _ rules: ReleaseRules, _ random: inout SplitMix64, at now: BusTime) {
        guard var probe, max(probe.retryAt, probe.pauseAt) <= now else { return }
        probe.failures += 1
        probe.pauseAt = now + delay(after: probe.failures, isOverload: isOverload, rules, &random)
        self.probe = probe
    }

    /// Returns the delay after some failures in a row: a fleet spreads its next canaries, too.
    private func delay(
        after failures: Int, isOverload: Bool, _ rules: ReleaseRules, _ random: inout SplitMix64
    ) -> Duration {
        let own = rules.delay(afterFailure: failures, isOverload: isOverload, &random)
        return max(own, ReleaseRules.nextSpread.draw(rules.fleetSize, &random))
    }

    /// Applies a delay ordered by the server.
    ///
    /// Jobs that gather meanwhile start in a growing window.
    mutating func throttle(until time: BusTime, by id: JobID?, _ rules: ReleaseRules) {
        if time > throttledUntil { (throttledUntil, throttledBy) = (time, id) }
        if rules.hasCanaries, isOpen { (phase, window) = (.ramping(successes: 0), ReleaseRules.firstWindow) }
    }

    /// Ends the delay that the server ordered.
    mutating func forgetHardDelay() { throttledUntil = .past }

    // MARK: - Permission

    enum Permission: Equatable {
        case granted(Pass)
        /// Not before a time or another change.
        case later(BusTime, QueueReason)
    }

    /// Returns if the next job of a class may start.
    ///
    /// - Parameter hasPaused: True if the job is alone at the gate and has waited for its own delay.
    func permission(_ queueClass: QueueClass, hasPaused: Bool, _ rules: ReleaseRules, at now: BusTime) -> Permission {
        if throttledUntil > now { return .later(throttledUntil, .throttled(by: throttledBy)) }
        guard queueClass.isGated else { return .granted(.free) }
        guard rules.hasCanaries else { return paced(.free, rules, at: now) }
        if isOpen { return .granted(.window) }
        let usual = usualPermission(queueClass, hasPaused: hasPaused, rules, at: now)
        if case .later = usual, queueClass == .interactive, bypassing < rules.interactiveBypass { return .granted(.bypass) }
        return usual
    }

    private func usualPermission(_ queueClass: QueueClass, hasPaused: Bool, _ rules: ReleaseRules, at now: BusTime) -> Permission {
        // The monitor ends it, not a timer.
        if queueClass != .interactive, isUnsteady { return .later(.never, .unsteady) }
        if queueClass == .bulk, spreadUntil > now { return .later(spreadUntil, .spread) }
        if queueClass != .interactive, isProbing, canaryAt > now { return .later(canaryAt, .spread) }
        let isFull = isProbing ? hasCanary : inFlight >= window
        // The oldest attempt makes room when it has run for long.
        if isFull { return .later(endOfOldestRun, isProbing ? .canary : .full(inFlight)) }
        if let probe {
            let earliest = hasPaused ? probe.retryAt : max(probe.retryAt, probe.pauseAt)
            return earliest > now ? .later(earliest, .failed) : .granted(.canary)
        }
        return queueClass == .interactive ? .granted(.window) : paced(.window, rules, at: now)
    }

    /// The time at which the oldest counted attempt has run for long.
    var endOfOldestRun: BusTime { runs.first.map { $0.start + ReleaseRules.longRun } ?? .never }

    private func paced(_ pass: Pass, _ rules: ReleaseRules, at now: BusTime) -> Permission {
        guard let pace = rules.pace else { return .granted(pass) }
        let earliest = dueAt + (.zero - pace.tolerance)
        return earliest > now ? .later(earliest, .pace) : .granted(pass)
    }

    /// Returns the classes in the order in which their jobs start.
    ///
    /// - Parameter isLimited: True if jobs may wait for others, so that bulk jobs need a share.
    func queueClasses(isLimited: Bool) -> [QueueClass] {
        let isBulksTurn =
            isLimited && sinceBulk + 1 >= ReleaseRules.bulkShare && !queues[.bulk].isEmpty && queues[.interactive].isEmpty
        return isBulksTurn ? Self.bulkFirstOrder : Self.usualOrder
    }

    private static let usualOrder: [QueueClass] = [.unbound, .bypass, .interactive, .normal, .bulk]
    private static let bulkFirstOrder: [QueueClass] = [.unbound, .bypass, .bulk, .normal]

    /// The counted attempts in the order of their starts, including some that have ended.
    var countedRuns: [Run] { Array(runs) }

    /// Removes and returns the running attempts older than ``ReleaseRules/longRun``; each is returned once.
    mutating func takeLongRuns(at now: BusTime, isRunning: (JobKey, Int32) -> Bool) -> [JobKey] {
        var long: [JobKey] = []
        // Many ended attempts may follow one that continues.
        if runs.count > 2 * (inFlight + bypassing) + 64 { runs.removeAll { !isRunning($0.key, $0.attempt) } }
        while let run = runs.first {
            let isOver = !isRunning(run.key, run.attempt)
            guard isOver || run.start + ReleaseRules.longRun <= now else { break }
            runs.removeFirst()
            if !isOver { long.append(run.key) }
        }
        return long
    }

    /// Opens the gate when no job waits, unless the server ordered a delay.
    mutating func noteIdle(at now: BusTime) {
        if isRamping, storedBacklogs == 0, throttledUntil <= now { phase = .open }
    }
}

/// The queues of a gate, by class.
struct GateQueues: Sendable {
    private var unbound = GateQueue()
    private var bypass = GateQueue()
    private var interactive = GateQueue()
    private var normal = GateQueue()
    private var bulk = GateQueue()

    subscript(queueClass: QueueClass) -> GateQueue {
        _read {
            switch queueClass {
            case .unbound: yield unbound
            case .bypass: yield bypass
            case .interactive: yield interactive
            case .normal: yield normal
            case .bulk: yield bulk
            }
        }
        _modify {
            switch queueClass {
            case .unbound: yield &unbound
            case .bypass: yield &bypass
            case .interactive: yield &interactive
            case .normal: yield &normal
            case .bulk: yield &bulk
            }
        }
    }

    /// The number of queued jobs to which the release policy applies.
    var gatedCount: Int { interactive.count + normal.count + bulk.count }

    var isEmpty: Bool { gatedCount == 0 && unbound.isEmpty && bypass.isEmpty }
}

/// The gates, by scope and destination.
struct GateTable: Sendable {
    /// The most gates without jobs that are kept; their state matters for 30 s only.
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

    /// The gate of a scope and destination; `nil` if there is none.
    func index(of scope: ConditionIndex, _ destination: String?) -> Int32? { indices[scope]?[destination] }

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
        // Not `_read`: compiler 6.3.1 without the optimizer would release the queues in the freed frame of the coroutine.
        get { gates[Int(index)] }
        // In place, because its queues are long.
        _modify { yield &gates[Int(index)] }
    }
}
