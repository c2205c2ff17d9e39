extension ReachabilityMonitor {
    /// What is to be told to whom, collected under the lock and told after it.
    struct Deliveries {
        private var transitions: [(Transition, [Listener])] = []
        private var conditions: [(ConditionStorage, Condition.State)] = []
        private var health: [(MonitorHealth, [AsyncStream<MonitorHealth>.Continuation])] = []
        private var finished: [Listener] = []
        private var report: MonitorInstruments.Report?
        private let instruments: MonitorInstruments?
        private var finishedHealth: [AsyncStream<MonitorHealth>.Continuation] = []

        /// What a batch led to.
        ///
        /// Those who have just come get the state after it.
        init(
            _ outcome: MonitorCore.Outcome, _ oldHealth: MonitorHealth, _ guarded: inout Guarded, _ instruments: MonitorInstruments?
        ) {
            self.instruments = instruments
            collect(outcome, oldHealth, &guarded)
            if guarded.broadcast.hasNewcomers {
                let (core, now, wallTime) = (guarded.core, guarded.now, guarded.wallTime)
                transitions += guarded.broadcast.admit { core.baseline($0, now: now, wallTime: wallTime) }
            }
            let current = guarded.core.health
            if current != oldHealth { health.append((current, guarded.healthListeners.listeners(to: 0))) }
            if guarded.healthListeners.hasNewcomers { health += guarded.healthListeners.admit { _ in current } }
        }

        /// What the end of the monitor leads to.
        init(
            ending outcome: MonitorCore.Outcome, _ oldHealth: MonitorHealth, _ guarded: inout Guarded,
            _ instruments: MonitorInstruments?
        ) {
            self.instruments = instruments
            collect(outcome, oldHealth, &guarded)
            finished = guarded.broadcast.removeAll()
            let listeners = guarded.healthListeners.removeAll()
            health = [(guarded.core.health, listeners)]
            finishedHealth = listeners
            for storage in guarded.conditions.values {
                var state = storage.state
                state.isFinished = true
                conditions.append((storage, state))
            }
            guarded.conditions = [:]
        }

        private mutating func collect(_ outcome: MonitorCore.Outcome, _ oldHealth: MonitorHealth, _ guarded: inout Guarded) {
            if instruments != nil { report = MonitorInstruments.Report(outcome, oldHealth, &guarded) }
            // Most transitions have no listener: each is made for raw streams and damped ones.
            for telling in outcome.transitions where guarded.broadcast.hasListeners(to: telling.key) {
                transitions.append((telling.transition, guarded.broadcast.listeners(to: telling.key)))
            }
            for level in outcome.conditions {
                if let storage = guarded.conditions[level.scope] { conditions.append((storage, level.state)) }
            }
        }

        /// Conditions come first: a job that waits for the network is worth more than a line that reports it.
        func perform() {
            for (storage, state) in conditions { storage.replace(state) }
            for (transition, listeners) in transitions {
                for listener in listeners { listener.yield(transition) }
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
