@testable import ReachableRetry

/// The core with a clock and conditions that a test controls; records the core's decisions.
///
/// Times are in seconds. Time advances from timer to timer, as in a bus.
struct CoreBench {
    private struct Life {
        var starts: [Double] = []
        var announcements: [Double] = []
        var startReasons: [StartReason] = []
        var failures: [String] = []
        var waits: [Double] = []
        var interruption: JobState.Interruption?
        var interruptions: [String] = []
        var end: (at: Double, result: String)?
    }

    private(set) var core: RetryBusCore
    private(set) var now = 0.0
    private var levels: [Level] = []
    private var lives: [JobKey: Life] = [:]
    /// The jobs in the order in which their attempts started.
    private(set) var order: [JobKey] = []
    /// False if operations begin with ``begin(_:)``, and not with their attempts.
    var beginsAttempts = true
    /// The number of warnings of a shortage.
    private(set) var warnings = 0
    /// A scope of a working monitor.
    let scope: ConditionIndex = 0

    /// A scope that is satisfied, or not, since its baseline.
    init(
        online: Bool = true, _ release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil,
        maxConcurrentPerDestination: Int? = nil, seed: UInt64 = 0
    ) {
        core = RetryBusCore(
            release: release, maxConcurrent: maxConcurrent, maxConcurrentPerDestination: maxConcurrentPerDestination, seed: seed)
        _ = add(Level(isSatisfied: online, epoch: online ? 1 : 0), isReachability: true)
    }

    /// A scope without a verdict.
    static var unknown: CoreBench {
        var bench = CoreBench()
        bench.levels = []
        bench.core = RetryBusCore()
        _ = bench.add(Level(isSatisfied: false, isKnown: false), isReachability: true)
        return bench
    }

    var time: BusTime { Self.time(now) }

    private static func time(_ seconds: Double) -> BusTime {
        BusTime(nanoseconds: Int64((seconds * 1000).rounded()) * 1_000_000)
    }

    /// Rounded up, so that the bus's time is not earlier.
    private static func seconds(_ time: BusTime) -> Double { (Double(time.nanoseconds) / 1_000_000).rounded(.up) / 1000 }

    // MARK: - Time

    /// The time of the next timer; `nil` if there is none.
    var next: Double? {
        let time = core.nextTime()
        return time.isNever ? nil : Self.seconds(time)
    }

    /// Advances the time and handles everything that is due.
    mutating func pass(to seconds: Double) {
        while let next, next <= seconds {
            now = max(now, next)
            note(core.tick(at: time))
        }
        now = seconds
    }

    /// Advances the time without timers: the next one is late.
    mutating func skip(to seconds: Double) { now = seconds }

    // MARK: - Conditions

    mutating func add(_ level: Level, isReachability: Bool = false) -> ConditionIndex {
        let index = core.addCondition(level, isReachability: isReachability, unknownUntil: Self.time(now + 2))
        while levels.count <= index { levels.append(level) }
        levels[Int(index)] = level
        return index
    }

    mutating func add(isSatisfied: Bool) -> ConditionIndex {
        add(Level(isSatisfied: isSatisfied, epoch: isSatisfied ? 1 : 0))
    }

    /// Changes a condition and updates the core.
    mutating func tell(_ index: ConditionIndex, _ change: (inout Level) -> Void) {
        change(&levels[Int(index)])
        note(core.update(index, levels[Int(index)], at: time))
    }

    mutating func up(_ index: ConditionIndex = 0) {
        tell(index) { level in
            if !level.isSatisfied || !level.isKnown { level.epoch += 1 }
            (level.isSatisfied, level.isKnown) = (true, true)
        }
    }

    mutating func down(_ index: ConditionIndex = 0) { tell(index) { ($0.isSatisfied, $0.isKnown) = (false, true) } }

    /// An edge without a loss: another interface, or a resume.
    mutating func edge(_ index: ConditionIndex = 0) { tell(index) { $0.epoch += 1 } }

    mutating func finish(_ index: ConditionIndex = 0) { tell(index) { $0.isFinished = true } }

    mutating func retryNow(_ index: ConditionIndex? = nil, ignoringServerDelays: Bool = false) {
        note(core.retryNow(index, ignoringServerDelays: ignoringServerDelays, at: time))
    }

    /// An evaluation of a scope without a change.
    mutating func evaluate(_ index: ConditionIndex = 0) { tell(index) { $0.evaluation += 1 } }

    mutating func setFleetSize(_ size: Int) { core.fleetSize = size }

    mutating func setUnsteady(_ isUnsteady: Bool) { tell(scope) { $0.isUnsteady = isUnsteady } }

    /// A lookup finds the scope unreachable.
    mutating func lose() { note(core.lose(scope, at: time)) }

    mutating func stopWaitingForTheFirstLook() { note(core.stopWaitingForTheFirstLook(scope, at: time)) }

    // MARK: - Jobs

    mutating func submit(
        _ policy: RetryPolicy = .plain, to scope: ConditionIndex = 0, when conditions: [ConditionIndex] = [],
        destination: String? = nil, priority: JobPriority = .normal, in parent: JobKey? = nil, notBefore: Double? = nil,
        hasEventReader: Bool = false
    ) -> JobKey {
        let attempt = parent.flatMap { core[$0] }.map { Int($0.history.started) }
        let (key, _, effects) = core.submit(
            policy.rules, scope: scope, conditions: conditions, destination: destination, priority: priority,
            lenders: parent.flatMap { parent in attempt.map { [AttemptKey(parent, $0)] } } ?? [],
            hasEventReader: hasEventReader, notBefore: notBefore.map(Self.time) ?? .past, at: time)
        lives[key] = Life()
        note(effects)
        return key
    }

    /// Lets the running attempt of a job wait for another job.
    mutating func join(_ job: JobKey, by lender: JobKey) {
        let attempt = core[lender].map { AttemptKey(lender, Int($0.history.started)) }
        if let attempt { note(core.lend(attempt, to: job, at: time)) }
    }

    mutating func pause(_ job: JobKey) { note(core.pause(job, at: time)) }

    mutating func resume(_ job: JobKey) { note(core.resume(job, at: time)) }

    /// The reader of a job's events asks for the next one.
    mutating func read(_ job: JobKey) { note(core.resume(job, by: .reader, at: time)) }

    /// Sets the source addresses of the running attempt.
    mutating func connect(_ job: JobKey, from sources: ConditionIndex...) {
        note(core.setSources(sources, of: job, at: time))
    }

    /// Begins the operation of a running attempt.
    mutating func begin(_ job: JobKey) { note(core.begin(job, at: time)) }

    mutating func succeed(_ job: JobKey) { note(core.succeed(job, at: time)) }

    /// Reports progress of a running attempt.
    mutating func progress(_ job: JobKey, of attempt: Int = 1) { note(core.noteProgress(job, of: attempt, at: time)) }

    /// Reports the kept part of a transfer, by default in the last attempt.
    mutating func keep(_ bytes: Int64, _ job: JobKey, of attempt: Int? = nil) {
        note(core.noteKept(bytes, job, of: attempt ?? starts(job).count, at: time))
    }

    /// Reports the first element of a sequence.
    mutating func leaveLimits(_ job: JobKey) { note(core.leaveLimits(job, at: time)) }

    mutating func cancel(_ job: JobKey) { note(core.cancel(job, at: time)) }

    mutating func shutDown(drain: Double?) {
        note(core.shutDown(drainEnd: drain.map { Self.time(now + $0) } ?? .never, at: time))
    }

    /// Fails the attempt.
    ///
    /// - Parameter delay: The delay after it; `nil` for the policy's.
    mutating func fail(
        _ job: JobKey, _ report: FailureReport = .unclassified, isGone: Bool = false, delay: Duration? = nil
    ) {
        let own = core.failureContext(of: job).map { FailureDelays($0, random: 0) }
        let delays = delay.map(FailureDelays.init) ?? own ?? FailureDelays(.zero)
        note(core.fail(job, report, interruption: lives[job]?.interruption, isGone: isGone, delays: delays, at: time))
    }

    /// Records that jobs of the internet's gate are stored elsewhere, or that no more are.
    mutating func setStoredBacklog(_ isThere: Bool) {
        note(core.setStoredBacklog(isThere, scope: 0, destination: nil, at: time))
    }

    /// Adds a condition to the job.
    mutating func need(_ condition: ConditionIndex, _ job: JobKey) {
        note(core.setConditions([condition], of: job, at: time))
    }

    mutating func takeIdleConditions() -> [ConditionIndex] { core.takeIdleConditions() }

    mutating func removeCondition(_ index: ConditionIndex) -> Bool { core.removeCondition(index) }

    // MARK: - Results of a job

    func starts(_ job: JobKey) -> [Double] { lives[job]?.starts ?? [] }

    /// The times at which its attempts were announced to the reader of its events.
    func announcements(_ job: JobKey) -> [Double] { lives[job]?.announcements ?? [] }

    /// The reason for its last start.
    func startReason(_ job: JobKey) -> StartReason? { lives[job]?.startReasons.last }

    /// The faults of its failures, and if they were charged.
    func failures(_ job: JobKey) -> [String] { lives[job]?.failures ?? [] }

    /// The reasons and times of its cancelled attempts.
    func interruptions(_ job: JobKey) -> [String] { lives[job]?.interruptions ?? [] }

    /// The times of its `waiting` events.
    func waits(_ job: JobKey) -> [Double] { lives[job]?.waits ?? [] }

    func ended(_ job: JobKey) -> Double? { lives[job]?.end?.at }

    /// `ok`, `cancelled`, or the reason for giving up, with `, cut` if the deadline cut the attempt.
    func result(_ job: JobKey) -> String? { lives[job]?.end?.result }

    func unmet(_ job: JobKey) -> [ConditionIndex] { core.description(of: job, at: time)?.unmet ?? [] }

    func softDelay(_ job: JobKey) -> Duration? { core.description(of: job, at: time)?.softDelay }

    func state(_ job: JobKey) -> PendingJob.State? { core.description(of: job, at: time)?.state }

    private mutating func note(_ effects: [Effect]) {
        for effect in effects {
            switch effect {
            case .start(let key):
                lives[key, default: Life()].starts.append(now)
                lives[key]?.interruption = nil
                order.append(key)
                if beginsAttempts { begin(key) }
            case .announce(let key): lives[key, default: Life()].announcements.append(now)
            case .interrupt(let key, let interruption):
                lives[key]?.interruption = interruption
                lives[key]?.interruptions.append("\(interruption) at \(now)")
            case .end(let key, _): _ = core.takeEnded(key)
            case .handBack(let key, _):
                lives[key]?.end = (now, "handed back")
                _ = core.takeEnded(key)
            case .warnOfShortage: warnings += 1
            case .publish(let subject, let change):
                note(change, subject.key)
                if change == .succeeded { _ = core.takeEnded(subject.key) }
            }
        }
    }

    private mutating func note(_ change: JobChange, _ key: JobKey) {
        switch change {
        case .waiting: lives[key, default: Life()].waits.append(now)
        case .failed(let failure, let isCharged): lives[key]?.failures.append("\(failure.fault)\(isCharged ? ", charged" : "")")
        case .succeeded: lives[key]?.end = (now, "ok")
        case .ended(.cancelled): lives[key]?.end = (now, "cancelled")
        case .ended(.gaveUp(let reason, _, let isCut)):
            lives[key, default: Life()].end = (now, reason.rawValue + (isCut ? ", cut" : ""))
        case .started(_, let startReason): lives[key, default: Life()].startReasons.append(startReason)
        case .backingOff, .warned: break
        }
    }
}

extension RetryPolicy {
    /// 1, 2, 4, 8… seconds without jitter, four attempts.
    static let plain = RetryPolicy(.exponential(initial: .seconds(1), multiplier: 2)).giveUpAfter(maxAttempts: 4)
}
