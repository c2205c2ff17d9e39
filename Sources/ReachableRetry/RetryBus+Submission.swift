internal import Logging
internal import Reachability
internal import Synchronization

extension RetryBus {
    /// What a caller asks for.
    struct Order {
        var policy: RetryPolicy
        var scope: Scope
        var options: JobOptions
        /// When its life begins, if that is later than now.
        var notBefore = BusTime.past
        /// What makes its task when it may start; `nil` if it has one.
        var plan: AnyJobPlan?
        /// Whether its driver wants to hear that it waits.
        var wantsNews = false
        /// Whether its driver goes on only when a reader asks.
        var isPulled = false
        /// The priority of the tasks that the bus makes for it.
        var taskPriority = TaskPriority.medium
    }

    /// Takes in a job.
    func submit(_ order: Order) throws(RetryError) -> Ticket {
        // Asking the monitor is nothing to do under a lock. It is asked only if the scope is not followed already; that may end at
        // any moment, with its last job.
        var made: Condition?
        let trace = JobTrace(order, configuration, at: clock.now())
        while true {
            if let result = submit(order, made, monitor.stage, trace) {
                if case .failure = result { trace?.reject() }
                return try result.get()
            }
            made = monitor.condition(for: order.scope)
        }
    }

    /// Takes in a job; `nil` if that needs the scope's condition.
    private func submit(
        _ order: Order, _ made: Condition?, _ stage: ReachabilityMonitor.Stage, _ trace: JobTrace?
    ) -> Result<Ticket, RetryError>? {
        var result: Result<Ticket, RetryError>?
        let running = RunningAttempt.current
        let parent = running?.bus == ObjectIdentifier(self) ? running?.attempt : nil
        var isUnwatched = false
        change { guarded, now in
            guard !guarded.core.isShutDown else {
                result = .failure(.shutDown)
                return []
            }
            guard order.options.id.map({ guarded.desk.key(of: $0) == nil }) ?? true else {
                result = .failure(.duplicateID)
                return []
            }
            guard let scope = guarded.index(of: order.scope, made, self, stage, at: now) else { return [] }
            let others = order.options.conditions.map { guarded.index(of: $0, self, at: now) }
            let refreshed = ([scope] + others).flatMap { guarded.refresh($0, at: now) }
            let (key, number, effects) = guarded.core.submit(
                order.policy.rules, scope: scope, conditions: others, destination: order.options.destination,
                priority: order.options.priority,
                parent: parent, notBefore: order.notBefore, at: now)
            let ticket = Ticket(key: key, number: number, name: order.options.id.flatMap { $0.isChosen ? $0 : nil })
            guarded.desk.add(ticket, order)
            if trace != nil { guarded.desk[key]?.record.trace = trace }
            result = .success(ticket)
            isUnwatched = stage == .idle && order.policy.rules.connectivity != .ignore && !guarded.hasWarned
            if isUnwatched { guarded.hasWarned = true }
            return refreshed + effects
        }
        if isUnwatched { warnOfIdleMonitor() }
        return result
    }

    private func warnOfIdleMonitor() {
        let logger = configuration.logger ?? Logger(label: "ReachableRetry")
        logger.warning("the bus's monitor does not run, so that jobs do not wait for the network; next: call its run() before")
    }

    /// A condition changed.
    fileprivate func conditionChanged(_ index: ConditionIndex, _ storage: ObjectIdentifier) {
        change { guarded, now in
            // The place may belong to another one by now.
            guard let followed = guarded.followed[index], ObjectIdentifier(followed.condition.storage) == storage else { return [] }
            return guarded.refresh(index, at: now)
        }
    }

    /// What has to be asked before a failure is charged: an error may outrun the event that explains it.
    ///
    /// `nil` if the answer would change nothing.
    func scopeToAskAbout(_ key: JobKey, _ report: FailureReport) -> Scope? {
        guarded.withLock { guarded in
            guard guarded.core.wouldCharge(key, report), let index = guarded.core.conditions(of: key).first else { return nil }
            return guarded.followed[index]?.scope
        }
    }
}

extension RetryBus.Guarded {
    /// The place of a scope, which is followed from now on.
    fileprivate mutating func index(
        of scope: Scope, _ made: Condition?, _ bus: RetryBus, _ stage: ReachabilityMonitor.Stage, at now: BusTime
    ) -> ConditionIndex? {
        if let index = followed.index(of: scope) { return index }
        guard let made else { return nil }
        let index = index(of: made, bus, at: now)
        followed.name(index, as: scope)
        // Nobody runs the monitor: there is no first word to wait for.
        if stage == .idle { _ = core.stopWaitingForTheFirstLook(index, at: now) }
        return index
    }

    /// The place of a condition, which is followed from now on.
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

    /// Reads a condition anew.
    mutating func refresh(_ index: ConditionIndex, at now: BusTime) -> [Effect] {
        guard let entry = followed[index] else { return [] }
        return core.update(index, entry.level, at: now)
    }

    /// Reads all conditions of a job anew.
    mutating func refresh(_ key: JobKey, at now: BusTime) -> [Effect] {
        core.conditions(of: key).flatMap { refresh($0, at: now) }
    }
}
