/// What a ``ManualClock`` knows: the time, and what is due when.
struct ManualClockState: Sendable {
    typealias Instant = ManualClock.Instant
    typealias Sleep = CheckedContinuation<Void, any Error>
    typealias Witness = CheckedContinuation<Instant, any Error>

    /// Says what is due when, and in which order it was registered.
    struct Key: Hashable, Comparable, Sendable {
        let deadline: Instant
        let order: UInt64

        static func < (left: Key, right: Key) -> Bool {
            left.deadline == right.deadline ? left.order < right.order : left.deadline < right.deadline
        }
    }

    struct Entry: Sendable {
        enum Effect: Sendable {
            case wake(Sleep)
            case run(@Sendable () -> Void)
        }

        let key: Key
        let effect: Effect
        /// Whether ``ManualClock/nextSleep()`` told of it.
        var isTold = false

        var isSleep: Bool {
            if case .wake = effect { true } else { false }
        }

        func fire() {
            switch effect {
            case .wake(let continuation): continuation.resume()
            case .run(let action): action()
            }
        }
    }

    var now: Instant
    var witnesses: [UInt64: Witness] = [:]
    /// The tasks that wait for a number of sleepers.
    var counters: [UInt64: (count: Int, continuation: Sleep)] = [:]
    private(set) var sleepers = 0
    /// Latest first, so that the next one is cheap to take.
    private var entries: [Entry] = []
    private var nextOrder: UInt64 = 0

    init(now: Instant) { self.now = now }

    var nextDeadline: Instant? { entries.last?.key.deadline }

    mutating func makeKey(_ deadline: Instant) -> Key {
        defer { nextOrder += 1 }
        return Key(deadline: deadline, order: nextOrder)
    }

    /// Registers a sleep.
    ///
    /// Returns the sleep if it is over already, otherwise the one who waits to be told of it.
    mutating func sleep(_ key: Key, _ continuation: Sleep) -> (Sleep?, Witness?) {
        guard key.deadline > now else { return (continuation, nil) }
        let witness = witnesses.keys.min().flatMap { witnesses.removeValue(forKey: $0) }
        insert(Entry(key: key, effect: .wake(continuation), isTold: witness != nil))
        sleepers += 1
        return (nil, witness)
    }

    mutating func removeSleep(_ key: Key) -> Sleep? {
        guard case .wake(let continuation)? = remove(key)?.effect else { return nil }
        sleepers -= 1
        return continuation
    }

    /// Tells of the first sleep that was not told of, or registers who waits for one.
    mutating func witness(_ id: UInt64, _ continuation: Witness) -> Instant? {
        let untold = entries.indices.filter { entries[$0].isSleep && !entries[$0].isTold }
        guard let first = untold.min(by: { entries[$0].key.order < entries[$1].key.order }) else {
            witnesses[id] = continuation
            return nil
        }
        entries[first].isTold = true
        return entries[first].key.deadline
    }

    /// Returns whether so many tasks sleep, or registers the one that waits for them.
    mutating func count(_ id: UInt64, _ count: Int, _ continuation: Sleep) -> Bool {
        guard sleepers != count else { return true }
        counters[id] = (count, continuation)
        return false
    }

    /// Takes those who waited for the present number of sleepers.
    mutating func takeCounters() -> [Sleep] {
        guard !counters.isEmpty else { return [] }
        let taken = counters.filter { $0.value.count == sleepers }
        for id in taken.keys { counters[id] = nil }
        return taken.values.map(\.continuation)
    }

    mutating func schedule(_ deadline: Instant, _ action: @escaping @Sendable () -> Void) -> Key {
        let key = makeKey(deadline)
        insert(Entry(key: key, effect: .run(action)))
        return key
    }

    mutating func remove(_ key: Key) -> Entry? {
        let position = position(of: key)
        guard position < entries.count, entries[position].key == key else { return nil }
        return entries.remove(at: position)
    }

    /// Takes the next thing that is due, and lets its time be now; without any, `target` is now.
    mutating func popDue(by target: Instant) -> Entry? {
        guard let next = entries.last, next.key.deadline <= max(target, now) else {
            now = max(now, target)
            return nil
        }
        now = max(now, next.key.deadline)
        entries.removeLast()
        if next.isSleep { sleepers -= 1 }
        return next
    }

    private mutating func insert(_ entry: Entry) { entries.insert(entry, at: position(of: entry.key)) }

    /// Where the key is, or belongs.
    private func position(of key: Key) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].key > key { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
