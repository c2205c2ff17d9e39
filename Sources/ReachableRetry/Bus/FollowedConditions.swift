internal import Logging
package import Reachability
internal import Synchronization

extension RetryBus {
    /// Submits a job.
    func submit(_ request: JobRequest) throws(RetryError) -> JobHandle {
        let trace = JobTrace(request, configuration, at: clock.now())
        let result = following(request.scope) { made, stage in submit(request, made, stage, trace) }
        if case .failure = result { trace?.reject() }
        return try result.get()
    }

    /// Calls a body that needs a scope's condition, until it returns a value.
    ///
    /// The monitor has a lock of its own, so its condition is made outside of the bus's lock, and only for a scope that the bus
    /// does not follow. A scope may lose its last job at any moment, hence the loop.
    private func following<Value>(_ scope: Scope, _ body: (_ made: Condition?, ReachabilityMonitor.Stage) -> Value?) -> Value {
        var made: Condition?
        while true {
            if let value = body(made, monitor.stage) { return value }
            made = monitor.condition(for: scope)
        }
    }

    /// Submits a job; returns `nil` if that needs the scope's condition.
    private func submit(
        _ request: JobRequest, _ made: Condition?, _ stage: ReachabilityMonitor.Stage, _ trace: JobTrace?
    ) -> Result<JobHandle, RetryError>? {
        var result: Result<JobHandle, RetryError>?
        let submitter = request.isAwaited ? RunningAttempt.current(on: self)?.key : nil
        var isUnwatched = false
        change { state, now in
            guard !state.core.isShutDown else {
                result = .failure(.shutDown)
                return []
            }
            guard request.options.id.map({ state.key(of: $0) == nil }) ?? true else {
                result = .failure(.duplicateID)
                return []
            }
            guard let scope = state.index(of: request.scope, made, self, stage, at: now) else { return [] }
            let others = request.options.conditions.map { state.index(of: $0, self, at: now) }
            let refreshed = ([scope] + others).flatMap { state.refresh($0, at: now) }
            let name = request.options.id.flatMap { $0.isChosen ? $0 : nil }
            let (key, number, effects) = state.core.submit(
                request.policy.rules, scope: scope, conditions: others, destination: request.options.destination,
                priority: request.options.priority,
                lenders: state.attempts(waitingFor: request.options.id, submittedBy: submitter),
                hasEventReader: request.reader == .ofEvents, notBefore: request.notBefore, past: request.past, at: now)
            state.core.update(key) { $0 = DriverState(request, name: name, trace) }
            if let name { state.names[name] = key }
            result = .success(JobHandle(key: key, number: number, name: name))
            isUnwatched = stage == .idle && request.policy.rules.connectivity != .ignore && !state.hasWarned
            if isUnwatched { state.hasWarned = true }
            return refreshed + effects
        }
        if isUnwatched { warnOfIdleMonitor() }
        return result
    }

    /// Follows a scope for jobs that are stored elsewhere, until as many calls of ``expectNoJobs(to:)``.
    ///
    /// Their gates see the edges that come before the jobs.
    package func expectJobs(to scope: Scope) {
        withIndex(of: scope) { state, index, _ in
            state.core.retain(index)
            return []
        }
    }

    /// Ends ``expectJobs(to:)``.
    package func expectNoJobs(to scope: Scope) {
        change { state, _ in
            if let index = state.followed.index(of: scope) { state.core.release(index) }
            return []
        }
    }

    /// Records that more jobs to a scope and destination are stored elsewhere than were submitted, or that no more are.
    ///
    /// They pass the gate in a growing window, as jobs do that wait in its queue. Each call with `true` needs one with `false`.
    package func setStoredBacklog(_ isThere: Bool, to scope: Scope, destination: String?) {
        withIndex(of: scope) { state, index, now in
            state.core.setStoredBacklog(isThere, scope: index, destination: destination, at: now)
        }
    }

    /// The jobs of one kind, scope and destination that are stored elsewhere.
    package struct StoredJobs: Sendable {
        package var rules: RetryPolicy.Rules
        package var scope: Scope
        package var destination: String?
        /// True if something has held them.
        package var isBacklog: Bool

        package init(rules: RetryPolicy.Rules, scope: Scope, destination: String?, isBacklog: Bool) {
            (self.rules, self.scope, self.destination, self.isBacklog) = (rules, scope, destination, isBacklog)
        }
    }

    /// Returns the number of stored jobs that could start now: in all, and of each entry.
    ///
    /// - Parameters:
    ///   - owner: The owner of the jobs; of its calls the last one counts for `onChange`.
    ///   - onChange: Called once when the answer may have changed, outside of locks.
    package func room(
        for jobs: [StoredJobs], owner: AnyObject, onChange: @escaping @Sendable () -> Void
    ) -> (places: Room, rooms: [Room]) {
        let reading = clock.now()
        return state.withLock { state in
            let now = state.time(reading)
            let rooms = jobs.map { jobs in
                state.followed.index(of: jobs.scope).map {
                    state.core.room(
                        jobs.rules, scope: $0, destination: jobs.destination, isBacklog: jobs.isBacklog, at: now)
                } ?? Room()
            }
            // Set and read under one lock, so that no change is missed.
            state.roomWatchers[ObjectIdentifier(owner)] = onChange
            return (state.core.freePlaces(at: now), rooms)
        }
    }

    /// Forgets the last `onChange` of an owner.
    package func forgetRoom(of owner: AnyObject) {
        _ = state.withLock { $0.roomWatchers.removeValue(forKey: ObjectIdentifier(owner)) }
    }

    /// Changes the state with the index of a scope, which is followed at least until then.
    private func withIndex(of scope: Scope, _ body: (inout State, ConditionIndex, BusTime) -> [Effect]) {
        following(scope) { made, stage in
            var isDone: Void?
            change { state, now in
                guard let index = state.index(of: scope, made, self, stage, at: now) else { return [] }
                isDone = ()
                return state.refresh(index, at: now) + body(&state, index, now)
            }
            return isDone
        }
    }

    /// Warns of a bus whose time passes beside that of its simulated network.
    func warnOfTwoClocks(_ clock: any Clock<Duration>, _ other: any Clock<Duration>) {
        guard let other = other as? any SchedulingClock, (clock as? any SchedulingClock)?.identity != other.identity else { return }
        logger.warning(
            "the bus and its simulated network have two clocks: delays pass without outages; next: pass the network's clock"
        )
    }

    var logger: Logger { configuration.logger ?? Logger(label: "ReachableRetry") }

    private func warnOfIdleMonitor() {
        logger.warning("the bus's monitor does not run, so that jobs do not wait for the network; next: call its run() before")
    }

    /// Re-reads a condition that reports a change.
    fileprivate func conditionChanged(_ index: ConditionIndex, _ storage: ObjectIdentifier) {
        change { state, now in
            // The index may belong to another condition by now.
            guard let followed = state.followed[index], ObjectIdentifier(followed.condition.storage) == storage else { return [] }
            return state.refresh(index, at: now)
        }
    }
}

extension RetryBus.State {
    /// Returns the index of a scope, and follows it from now on.
    fileprivate mutating func index(
        of scope: Scope, _ made: Condition?, _ bus: RetryBus, _ stage: ReachabilityMonitor.Stage, at now: BusTime
    ) -> ConditionIndex? {
        if let index = followed.index(of: scope) { return index }
        guard let made else { return nil }
        let index = index(of: made, bus, at: now)
        followed.name(index, as: scope)
        // A monitor that does not run delivers no first verdict.
        if stage == .idle { _ = core.stopWaitingForTheFirstLook(index, at: now) }
        return index
    }

    /// Returns the index of a condition, and follows it from now on.
    mutating func index(of condition: Condition, _ bus: RetryBus, at now: BusTime) -> ConditionIndex {
        if let index = followed.index(of: condition) { return index }
        var entry = FollowedCondition(condition: condition, scope: nil)
        let storage = condition.storage
        let index = core.addCondition(
            entry.level, isReachability: storage.isReachability, unknownUntil: now + RetryBus.startupLimit)
        let identity = ObjectIdentifier(storage)
        entry.observer = storage.observe { [weak bus] in bus?.conditionChanged(index, identity) }
        followed.add(entry, at: index)
        return index
    }

    /// Re-reads a condition.
    mutating func refresh(_ index: ConditionIndex, at now: BusTime) -> [Effect] {
        guard let entry = followed[index] else { return [] }
        return core.update(index, entry.level, at: now)
    }

    /// Re-reads all conditions of a job.
    mutating func refresh(_ key: JobKey, at now: BusTime) -> [Effect] {
        core.conditions(of: key).flatMap { refresh($0, at: now) }
    }
}

/// A condition that the bus retains and observes.
struct FollowedCondition: Sendable {
    let condition: Condition
    /// The scope of a monitor's condition that jobs use.
    var scope: Scope?
    var observer: ConditionStorage.ID?

    /// Stops observing.
    ///
    /// Must not be called under a lock: releasing a condition may release values of its owner.
    func close() {
        if let observer { condition.storage.removeObserver(observer) }
    }

    var level: Level {
        let reading = condition.storage.reading
        let state = reading.state
        var level = Level(
            isSatisfied: state.isSatisfied, epoch: state.epoch, isFinished: state.isFinished, isKnown: reading.isKnown)
        (level.isUnsteady, level.evaluation) = (reading.isUnsteady, reading.evaluation)
        return level
    }
}

/// The conditions that jobs depend on, by index, scope and identity.
struct FollowedConditions: Sendable {
    private var entries: [ConditionIndex: FollowedCondition] = [:]
    private var scopes: [Scope: ConditionIndex] = [:]
    private var storages: [ObjectIdentifier: ConditionIndex] = [:]

    func count(where isCounted: (FollowedCondition) -> Bool) -> Int { entries.values.count(where: isCounted) }

    func index(of scope: Scope) -> ConditionIndex? { scopes[scope] }

    /// Two conditions of a monitor for the same scope share their storage.
    func index(of condition: Condition) -> ConditionIndex? { storages[ObjectIdentifier(condition.storage)] }

    subscript(index: ConditionIndex) -> FollowedCondition? { entries[index] }

    mutating func add(_ followed: FollowedCondition, at index: ConditionIndex) {
        entries[index] = followed
        storages[ObjectIdentifier(followed.condition.storage)] = index
        if let scope = followed.scope { scopes[scope] = index }
    }

    /// Adds the scope to a condition that was followed without it.
    mutating func name(_ index: ConditionIndex, as scope: Scope) {
        entries[index]?.scope = scope
        scopes[scope] = index
    }

    mutating func remove(_ index: ConditionIndex) -> FollowedCondition? {
        guard let followed = entries.removeValue(forKey: index) else { return nil }
        storages[ObjectIdentifier(followed.condition.storage)] = nil
        if let scope = followed.scope { scopes[scope] = nil }
        return followed
    }

    mutating func removeAll() -> [FollowedCondition] {
        defer { self = FollowedConditions() }
        return Array(entries.values)
    }
}

/// A cache of the lookups after failures, so that a burst of failures makes one.
///
/// A result is reused for ``lifetime``, unless the monitor has processed a batch since the lookup. Several threads may look up
/// the same scope at once, because no lock is held across a lookup.
final class RecentLookups: Sendable {
    static let lifetime = Duration.milliseconds(1)

    private struct Answer {
        var time: BusTime
        var delivery: UInt64
        var isGone: Bool
    }

    private let answers = Mutex<[Scope: Answer]>([:])

    /// Returns true if the kernel has no path to a scope; `false` also if the lookup failed.
    func isGone(_ scope: Scope, _ monitor: ReachabilityMonitor, at now: BusTime) -> Bool {
        let delivery = monitor.deliveryCount
        if let known = answers.withLock({ $0[scope] }), known.delivery == delivery, now - known.time < Self.lifetime {
            return known.isGone
        }
        guard let path = try? monitor.path(to: scope) else { return false }
        let answer = Answer(time: now, delivery: delivery, isGone: path.status == .unsatisfied)
        answers.withLock { answers in
            answers = answers.filter { now - $0.value.time < Self.lifetime }
            answers[scope] = answer
        }
        return answer.isGone
    }
}
