extension ReachabilityMonitor {
    /// A transition, and those who listen to it.
    struct News {
        var transition: Transition
        var listeners: [Listener]

        func tell() {
            for listener in listeners { listener.yield(transition) }
        }
    }

    /// What is to be told to whom beside ``Guarded/news(_:)``, collected under the lock and told after it.
    struct Deliveries {
        private var transitions: [News] = []
        private var finishedConditions: [ConditionStorage] = []
        private var health: [(MonitorHealth, [AsyncStream<MonitorHealth>.Continuation])] = []
        private var answer: (ValidationState.Answer?, [ValidationRequest]) = (nil, [])
        private var finished: [Listener] = []
        private var report: MonitorInstruments.Report?
        private let instruments: MonitorInstruments?
        private var finishedHealth: [AsyncStream<MonitorHealth>.Continuation] = []

        /// What a batch led to, after its transitions were told.
        ///
        /// Those who have just come get the state after it.
        init(_ outcome: MonitorCore.Outcome, _ guarded: inout Guarded, _ instruments: MonitorInstruments?) {
            self.instruments = instruments
            if instruments != nil { report = MonitorInstruments.Report(outcome, &guarded) }
            if let found = outcome.validation?.answer { answer = (found, guarded.validationRequests.removeAll()) }
            if guarded.broadcast.hasNewcomers {
                let (core, now, wallTime) = (guarded.core, guarded.now, guarded.wallTime)
                let admitted = guarded.broadcast.admit { core.baseline($0, now: now, wallTime: wallTime) }
                transitions = admitted.map(News.init)
            }
            let current = guarded.core.health
            if current != guarded.toldHealth {
                health.append((current, guarded.healthListeners.listeners(to: 0)))
                guarded.toldHealth = current
            }
            if guarded.healthListeners.hasNewcomers { health += guarded.healthListeners.admit { _ in current } }
        }

        /// What the end of the monitor leads to.
        init(ending outcome: MonitorCore.Outcome, _ guarded: inout Guarded, _ instruments: MonitorInstruments?) {
            self.instruments = instruments
            if instruments != nil { report = MonitorInstruments.Report(outcome, &guarded) }
            transitions = guarded.news(outcome)
            // Listeners that have had no baseline get one with the end.
            let (core, now, wallTime) = (guarded.core, guarded.now, guarded.wallTime)
            transitions += guarded.broadcast.admit { core.baseline($0, now: now, wallTime: wallTime) }.map(News.init)
            finished = guarded.broadcast.removeAll()
            let listeners = guarded.healthListeners.removeAll()
            health = [(guarded.core.health, listeners)]
            finishedHealth = listeners
            answer = (nil, guarded.validationRequests.removeAll())
            finishedConditions = Array(guarded.conditions.values) + [guarded.validatedCondition].compactMap(\.self)
            finishedConditions += guarded.holdings.values.map(\.storage)
            (guarded.conditions, guarded.holdings) = ([:], [:])
            guarded.validatedCondition = nil
        }

        func perform() {
            for storage in finishedConditions { storage.finish() }
            for news in transitions { news.tell() }
            for request in answer.1 {
                if let found = answer.0 { request.yield(found) }
                request.finish()
            }
            for (health, listeners) in health {
                for listener in listeners { listener.yield(health) }
            }
            for listener in finished { listener.finish() }
            for listener in finishedHealth { listener.finish() }
            if let report { instruments?.record(report) }
        }
    }
}

extension ReachabilityMonitor.Guarded {
    /// The transitions that somebody listens to.
    func news(_ outcome: MonitorCore.Outcome) -> [ReachabilityMonitor.News] {
        var news: [ReachabilityMonitor.News] = []
        // Most transitions have no listener: each is made for raw streams and damped ones.
        for telling in outcome.transitions where broadcast.hasListeners(to: telling.key) {
            news.append(ReachabilityMonitor.News(transition: telling.transition, listeners: broadcast.listeners(to: telling.key)))
        }
        return news
    }

    /// A condition that somebody has, and what became of it.
    struct ConditionChange {
        var storage: ConditionStorage
        var state: Condition.State
        var isUnsteady = false
        var wasRequested = false
    }

    /// The conditions that changed, of those that somebody has.
    mutating func changes(_ settlement: MonitorCore.Settlement, _ answers: MonitorCore.Answers) -> [ConditionChange] {
        var changes: [ConditionChange] = []
        if core.isValidating, let state = core.validation?.takeCondition(), let validatedCondition {
            changes.append(ConditionChange(storage: validatedCondition, state: state))
        }
        changes += holdingChanges()
        if conditions.isEmpty { return changes }
        var steadied = settlement.steadied
        for entry in settlement.entries {
            let scope = answers.paths[entry.position].scope
            let becameSteady = !steadied.isEmpty && steadied.remove(scope) != nil
            guard entry.observation.conditionChanged || entry.wasRequested || becameSteady, let storage = conditions[scope] else {
                continue
            }
            changes.append(
                ConditionChange(
                    storage: storage, state: entry.observation.state, isUnsteady: entry.isUnsteady,
                    wasRequested: entry.wasRequested))
        }
        for scope in steadied {
            guard let storage = conditions[scope] else { continue }
            changes.append(ConditionChange(storage: storage, state: core.condition(scope)))
        }
        return changes
    }
}
