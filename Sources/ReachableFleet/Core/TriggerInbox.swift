internal import DequeModule
internal import ReachableRetry

/// The triggers that this node has heard: each acts at most once, at a time of the node's own.
struct TriggerInbox: Sendable {
    /// The time over which the nodes of a site spread.
    static let spread = Duration.seconds(10)
    /// The most senders and names to remember; the oldest are forgotten.
    static let limit = 1024

    /// The triggers of one sender and name: they come in order, because they share a topic.
    struct Series: Hashable, Sendable {
        var name: FleetName
        var sender: FleetName
    }

    struct Pending: Hashable, Sendable {
        var trigger: FleetTrigger
        var time: BusTime
    }

    private let node: FleetName
    /// The last number of each series.
    private(set) var heard: [Series: UInt64] = [:]
    private var order: Deque<Series> = []
    private(set) var pending: [Pending] = []

    init(node: FleetName) { self.node = node }

    /// Takes a trigger; returns false for one that was heard before or comes too late.
    mutating func take(_ word: TriggerWord, name: FleetName, at now: FleetInstant) -> Bool {
        let series = Series(name: name, sender: word.sender)
        let deadline = Duration.seconds(Int64(min(word.deadline, WordCoding.largestNumber)))
        guard deadline > now.wall, heard[series].map({ $0 < word.sequence }) ?? true, pending.count < Self.limit
        else { return false }
        if heard.updateValue(word.sequence, forKey: series) == nil {
            order.append(series)
            if order.count > Self.limit, let oldest = order.popFirst() { heard[oldest] = nil }
        }
        let trigger = FleetTrigger(name: name, sender: word.sender, sequence: word.sequence, deadline: deadline)
        let time = now.time + delay(trigger, most: min(Self.spread, deadline - now.wall))
        // One that repeats another before its time includes it, and does not postpone it.
        if let earlier = pending.firstIndex(where: { $0.trigger.name == name && $0.trigger.sender == word.sender }) {
            pending[earlier] = Pending(trigger: trigger, time: min(time, pending[earlier].time))
        } else {
            pending.append(Pending(trigger: trigger, time: time))
        }
        return true
    }

    /// Returns the delay of this node, which follows from its name and the trigger: nodes need not agree.
    private func delay(_ trigger: FleetTrigger, most: Duration) -> Duration {
        let hash = StableHash.of("\(node)/\(trigger.name)/\(trigger.sender)/\(trigger.sequence)")
        let nanoseconds = Int64(clamping: most.attoseconds / 1_000_000_000)
        return .nanoseconds(nanoseconds > 0 ? Int64(hash % UInt64(nanoseconds)) : 0)
    }

    /// Removes and returns the triggers whose time has come; one whose deadline has passed meanwhile is left out.
    mutating func takeDue(at now: FleetInstant) -> (due: [FleetTrigger], late: Int) {
        let due = pending.filter { $0.time <= now.time }.map(\.trigger)
        pending.removeAll { $0.time <= now.time }
        let inTime = due.filter { $0.deadline > now.wall }
        return (inTime, due.count - inTime.count)
    }

    /// The time of the next trigger.
    var wake: BusTime { pending.map(\.time).min() ?? .never }
}
