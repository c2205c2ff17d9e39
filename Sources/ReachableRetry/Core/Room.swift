/// The number of attempts that could start at a gate now, besides those that were submitted.
package struct Room: Hashable, Sendable {
    /// The number; `Int.max` without a limit.
    package var count = Int.max
    /// The time at which it may grow without another change of the bus.
    package var next = BusTime.never
    /// True if the gate lets jobs go in steps.
    package var isStepped = false

    package init(count: Int = .max, next: BusTime = .never, isStepped: Bool = false) {
        (self.count, self.next, self.isStepped) = (max(0, count), next, isStepped)
    }
}

/// The free places of the bus for jobs that are stored elsewhere, so that their owner takes no more than can start.
extension RetryBusCore {
    /// Returns the number of attempts that the bus's limit still allows, at all gates together.
    package func freePlaces(at now: BusTime) -> Room {
        let count = limit(at: now)
        guard count < .max else { return Room() }
        return Room(count: count - running, next: running < maxConcurrent ? shortage?.time(of: running) ?? .never : .never)
    }

    /// Returns the room for jobs to a scope and destination.
    ///
    /// - Parameter isBacklog: True if something has held the jobs: see ``noteBacklog(at:at:)``.
    package mutating func room(
        _ rules: RetryPolicy.Rules, scope: ConditionIndex, destination: String?, isBacklog: Bool, at now: BusTime
    ) -> Room {
        guard let record = conditions[Int(scope)] else { return Room() }
        let index = gates.index(of: scope, destination)
        if let index { retireLongRuns(of: index, at: now) }
        var gate = index.map { gates[$0] } ?? GateState()
        if index == nil, isNewGateProbing(record, at: now) {
            gate.noteEdge(record, release.rules)
        }
        var room = gate.room(isGated: rules.isGated, isBacklog: isBacklog, isProven: record.isProven, release.rules, at: now)
        let most = min(maxConcurrentPerDestination, rules.maxConcurrentPerDestination ?? .max)
        if destination != nil, most < .max { room.count = max(0, min(room.count, most - gate.running)) }
        return room
    }

    /// Returns true if something has changed since the last call that may change the room of a gate.
    package mutating func takeRoomNews() -> Bool {
        defer { hasRoomNews = false }
        return hasRoomNews
    }
}

extension GateState {
    /// Returns the number of normal jobs that could start.
    func room(isGated: Bool, isBacklog: Bool, isProven: Bool, _ rules: ReleaseRules, at now: BusTime) -> Room {
        if throttledUntil > now { return Room(count: 0, next: throttledUntil) }
        guard isGated else { return Room() }
        guard rules.hasCanaries else { return pacedRoom(rules, at: now) }
        if isOpen {
            guard isBacklog else { return Room() }
            let width = isProven ? min(window, rules.maxInFlight) : 1
            return Room(count: width - inFlight, next: endOfOldestRun, isStepped: true)
        }
        switch permission(.normal, hasPaused: false, rules, at: now) {
        case .later(let time, _): return Room(count: 0, next: time, isStepped: true)
        case .granted(.canary): return Room(count: 1, isStepped: true)
        case .granted:
            let paced = pacedRoom(rules, at: now)
            return Room(count: min(window - inFlight, paced.count), next: paced.next, isStepped: true)
        }
    }

    private func pacedRoom(_ rules: ReleaseRules, at now: BusTime) -> Room {
        guard let pace = rules.pace else { return Room() }
        let earliest = dueAt + (.zero - pace.tolerance)
        guard earliest <= now else { return Room(count: 0, next: earliest) }
        let count = Int((now + pace.tolerance - max(dueAt, now)) / pace.interval) + 1
        return Room(count: count, next: now + pace.interval)
    }
}
