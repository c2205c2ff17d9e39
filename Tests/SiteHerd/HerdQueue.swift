internal import HeapModule
internal import ReachableRetry

/// Events in the order of their times; those of one time in the order in which they were added.
struct HerdQueue<Event: Sendable>: Sendable {
    private struct Entry: Comparable, Sendable {
        var time: BusTime
        var number: UInt64
        var event: Event

        static func < (left: Entry, right: Entry) -> Bool { (left.time, left.number) < (right.time, right.number) }
        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var entries = Heap<Entry>()
    private var number: UInt64 = 0

    var nextTime: BusTime? { entries.min?.time }

    mutating func insert(_ event: Event, at time: BusTime) {
        number += 1
        entries.insert(Entry(time: time, number: number, event: event))
    }

    mutating func removeFirst() -> Event? { entries.popMin()?.event }
}
