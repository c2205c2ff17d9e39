internal import HeapModule

/// The times of the jobs, the earliest first.
///
/// A job has at most one. To take it back is to forget its token, which costs nothing; what is forgotten is thrown away when it
/// comes up, or when it is more than half of all.
package struct TimerQueue: Sendable {
    /// Says which of a job's times is the one that counts; 0 is none.
    package typealias Token = UInt32

    package struct Entry: Comparable, Sendable {
        package let time: BusTime
        package let job: JobIndex
        package let token: Token

        package static func < (left: Entry, right: Entry) -> Bool {
            left.time == right.time ? left.token < right.token : left.time < right.time
        }
    }

    private var heap = Heap<Entry>()
    private var forgotten = 0
    private var nextToken: Token = 0

    package init() {}

    /// How many times there are, those that were taken back not counted.
    package var count: Int { heap.count - forgotten }

    /// How much memory they take, in entries.
    package var storedCount: Int { heap.count }

    /// The earliest time, or earlier: it may have been taken back.
    var earliest: BusTime { heap.min?.time ?? .never }

    package mutating func arm(_ job: JobIndex, at time: BusTime) -> Token {
        // After four billion it starts again; a token is compared with its own job's only.
        nextToken = nextToken == .max ? 1 : nextToken + 1
        heap.insert(Entry(time: time, job: job, token: nextToken))
        return nextToken
    }

    /// Takes back a time.
    mutating func cancel(isCurrent: (Entry) -> Bool) {
        forgotten += 1
        throwAwayForgotten(isCurrent)
    }

    /// The earliest time that counts.
    mutating func first(isCurrent: (Entry) -> Bool) -> Entry? {
        throwAwayForgotten(isCurrent)
        while let entry = heap.min {
            if isCurrent(entry) { return entry }
            heap.removeMin()
            forgotten -= 1
        }
        return nil
    }

    /// Throws all away, which are all forgotten; no token comes twice.
    mutating func removeAll() { (heap, forgotten) = (Heap(), 0) }

    mutating func removeFirst() { heap.removeMin() }

    private mutating func throwAwayForgotten(_ isCurrent: (Entry) -> Bool) {
        guard forgotten > 32, forgotten > heap.count / 2 else { return }
        heap = Heap(heap.unordered.filter(isCurrent))
        forgotten = 0
    }
}
