/// Who listens to which stream.
///
/// A listener gets its baseline before anything else, and only from whoever publishes.
///
/// Registration puts a listener among the newcomers; the publisher, of whom there is one at a time, fetches them with their
/// baselines. So a transition can neither be told twice nor fall between a baseline and what follows it, and nobody is told
/// anything under a lock.
package struct Broadcast<Key: Hashable & Sendable, Listener: Sendable>: Sendable {
    package typealias ID = UInt64

    private var listeners: [Key: [ID: Listener]] = [:]
    private var newcomers: [Key: [ID: Listener]] = [:]
    private var nextID: ID = 0

    package init() {}

    /// The number of listeners, newcomers included.
    package var count: Int {
        listeners.values.reduce(0) { $0 + $1.count } + newcomers.values.reduce(0) { $0 + $1.count }
    }

    package var hasNewcomers: Bool { !newcomers.isEmpty }

    package mutating func add(_ listener: Listener, to key: Key) -> ID {
        nextID += 1
        newcomers[key, default: [:]][nextID] = listener
        return nextID
    }

    /// Returns whether the listener was there.
    package mutating func remove(_ id: ID, from key: Key) -> Bool {
        if listeners[key]?.removeValue(forKey: id) != nil {
            if listeners[key]?.isEmpty == true { listeners[key] = nil }
            return true
        }
        guard newcomers[key]?.removeValue(forKey: id) != nil else { return false }
        if newcomers[key]?.isEmpty == true { newcomers[key] = nil }
        return true
    }

    /// Whether anybody has had a baseline.
    package func hasListeners(to key: Key) -> Bool { listeners[key] != nil }

    /// The listeners who have had their baseline.
    package func listeners(to key: Key) -> [Listener] { listeners[key].map { Array($0.values) } ?? [] }

    /// Makes listeners of the newcomers to those streams that have a baseline, and returns them with it.
    package mutating func admit<Baseline>(_ baseline: (Key) -> Baseline?) -> [(Baseline, [Listener])] {
        var admitted: [(Baseline, [Listener])] = []
        for (key, arrivals) in newcomers {
            guard let start = baseline(key) else { continue }
            admitted.append((start, Array(arrivals.values)))
            listeners[key, default: [:]].merge(arrivals) { $1 }
            newcomers[key] = nil
        }
        return admitted
    }

    /// Forgets everybody and returns them.
    package mutating func removeAll() -> [Listener] {
        defer {
            listeners = [:]
            newcomers = [:]
        }
        return (listeners.values.map(\.values) + newcomers.values.map(\.values)).flatMap(Array.init)
    }
}
