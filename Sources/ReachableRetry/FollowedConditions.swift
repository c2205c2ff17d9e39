internal import Reachability
internal import Synchronization

/// A condition that the bus follows: kept, and observed.
struct FollowedCondition: Sendable {
    let condition: Condition
    /// What it says about, if it is a monitor's and jobs go there.
    var scope: Scope?
    var observer: ConditionStorage.ID?

    /// Stops observing.
    ///
    /// Not under a lock: with the condition its owner's code may go.
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

/// The conditions that jobs depend on, by what they are.
struct FollowedConditions: Sendable {
    private var entries: [ConditionIndex: FollowedCondition] = [:]
    private var scopes: [Scope: ConditionIndex] = [:]
    private var storages: [ObjectIdentifier: ConditionIndex] = [:]

    func count(where isCounted: (FollowedCondition) -> Bool) -> Int { entries.values.count(where: isCounted) }

    func index(of scope: Scope) -> ConditionIndex? { scopes[scope] }

    /// Two conditions for the same scope of a monitor are one.
    func index(of condition: Condition) -> ConditionIndex? { storages[ObjectIdentifier(condition.storage)] }

    subscript(index: ConditionIndex) -> FollowedCondition? { entries[index] }

    mutating func add(_ followed: FollowedCondition, at index: ConditionIndex) {
        entries[index] = followed
        storages[ObjectIdentifier(followed.condition.storage)] = index
        if let scope = followed.scope { scopes[scope] = index }
    }

    /// A condition that was followed for its own sake turns out to be a scope's.
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

/// The answers of the kernel about scopes whose attempts failed: a burst of failures asks once.
///
/// An answer is used again for ``lifetime``, unless the monitor has heard anything since the question. Questions of several threads
/// that come at once are asked at once: no lock is held across a lookup.
final class RecentLookups: Sendable {
    static let lifetime = Duration.milliseconds(1)

    private struct Answer {
        var time: BusTime
        var delivery: UInt64
        var isGone: Bool
    }

    private let answers = Mutex<[Scope: Answer]>([:])

    /// Returns whether the kernel says that a scope cannot be reached; `false` if it cannot be asked.
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
