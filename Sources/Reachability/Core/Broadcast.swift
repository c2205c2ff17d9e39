/// The listeners of each stream.
///
/// Registration adds a listener to the newcomers. The publisher, of which there is one at a time, admits them with their
/// baselines. So no transition is delivered twice or lost after a baseline, and no listener is called under a lock.
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

    /// Removes a listener.
    ///
    /// - Returns: true if the listener was registered.
    package mutating func remove(_ id: ID, from key: Key) -> Bool {
        if listeners[key]?.removeValue(forKey: id) != nil {
            if listeners[key]?.isEmpty == true { listeners[key] = nil }
            return true
        }
        guard newcomers[key]?.removeValue(forKey: id) != nil else { return false }
        if newcomers[key]?.isEmpty == true { newcomers[key] = nil }
        return true
    }

    /// Returns true if a stream has a listener with a baseline.
    package func hasListeners(to key: Key) -> Bool { listeners[key] != nil }

    /// Returns the listeners with a baseline.
    package func listeners(to key: Key) -> [Listener] { listeners[key].map { Array($0.values) } ?? [] }

    /// Admits the newcomers of streams that have a baseline, and returns them with it.
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

    /// Removes and returns all listeners and newcomers.
    package mutating func removeAll() -> [Listener] {
        defer {
            listeners = [:]
            newcomers = [:]
        }
        return (listeners.values.map(\.values) + newcomers.values.map(\.values)).flatMap(Array.init)
    }
}
