/// The place of a job in the tables of its bus.
package typealias JobIndex = Int32

/// The timers of the jobs, the earliest first; a job has at most one.
///
/// A heap with four branches and the place of each job's timer, because most timers are cancelled. Cancelling marks a place as
/// vacant and touches no other; when two thirds are vacant, they are removed. The heap of swift-collections has no places:
/// checking each popped time costs twice as much among a million.
package struct TimerQueue: Sendable {
    private struct Entry {
        var time: BusTime
        var job: JobIndex
    }

    private static let branches = 4
    /// The job of a vacant entry.
    private static let none: JobIndex = -1
    /// The most vacant places that are kept, and the most idle places of jobs without any timer.
    private static let (mostVacant, mostIdle) = (64, 256)

    private var heap: [Entry] = []
    private var vacant = 0
    /// The place of each job's timer in the heap; -1 if it has none.
    private var places: [Int32] = []

    package init() {}

    /// The number of timers.
    package var count: Int { heap.count - vacant }

    /// The earliest time; ``BusTime/never`` if there is none.
    package var earliest: BusTime { heap.first?.time ?? .never }

    /// The allocated capacity.
    package var capacity: Int { max(heap.capacity, places.capacity) }

    /// Returns true if a job has a timer.
    package func isArmed(_ job: JobIndex) -> Bool { Int(job) < places.count && places[Int(job)] >= 0 }

    /// Sets a job's timer, replacing an earlier one.
    package mutating func arm(_ job: JobIndex, at time: BusTime) {
        while places.count <= Int(job) { places.append(-1) }
        let entry = Entry(time: time, job: job)
        let place = places[Int(job)]
        if place >= 0 {
            settle(entry, at: Int(place))
            // The entry that moved to the first place may be vacant.
            if place == 0 { uncoverFirst() }
        } else {
            heap.append(entry)
            rise(entry, from: heap.count - 1)
        }
    }

    /// Cancels a job's timer, if it has one.
    package mutating func cancel(_ job: JobIndex) {
        guard isArmed(job) else { return }
        vacate(Int(places[Int(job)]), of: job)
        if vacant > Self.mostVacant, vacant > heap.count / 3 * 2 { clearAway() }
    }

    /// Removes and returns the job with the earliest timer that is due.
    package mutating func popDue(at now: BusTime) -> JobIndex? {
        guard let first = heap.first, first.time <= now else { return nil }
        vacate(0, of: first.job)
        return first.job
    }

    private mutating func vacate(_ place: Int, of job: JobIndex) {
        places[Int(job)] = -1
        heap[place].job = Self.none
        vacant += 1
        if place == 0 { uncoverFirst() }
        if heap.isEmpty, places.count > Self.mostIdle { (heap, places) = ([], []) }
    }

    /// Removes vacant entries from the first place.
    private mutating func uncoverFirst() {
        while let first = heap.first, first.job == Self.none {
            vacant -= 1
            let last = heap.removeLast()
            if !heap.isEmpty { sink(last, from: 0) }
        }
    }

    private mutating func clearAway() {
        heap.removeAll { $0.job == Self.none }
        vacant = 0
        for place in heap.indices { places[Int(heap[place].job)] = Int32(truncatingIfNeeded: place) }
        for place in (0..<(heap.count + Self.branches - 2) / Self.branches).reversed() { sink(heap[place], from: place) }
    }

    /// Puts an entry where another one was.
    private mutating func settle(_ entry: Entry, at place: Int) {
        if place > 0, entry.time < heap[(place - 1) / Self.branches].time {
            rise(entry, from: place)
        } else {
            sink(entry, from: place)
        }
    }

    // The buffers of both arrays in `rise` and `sink`: subscripts take 32 ns instead of 28 to arm a timer (`bench timers`).

    /// Moves an entry up from a free place.
    private mutating func rise(_ entry: Entry, from start: Int) {
        var place = start
        heap.withUnsafeMutableBufferPointer { heap in
            places.withUnsafeMutableBufferPointer { places in
                while place > 0 {
                    let parent = (place - 1) / Self.branches
                    guard entry.time < heap[parent].time else { break }
                    heap[place] = heap[parent]
                    Self.note(heap[place].job, at: place, places)
                    place = parent
                }
                heap[place] = entry
                Self.note(entry.job, at: place, places)
            }
        }
    }

    /// Moves an entry down from a free place.
    private mutating func sink(_ entry: Entry, from start: Int) {
        var place = start
        heap.withUnsafeMutableBufferPointer { heap in
            places.withUnsafeMutableBufferPointer { places in
                while true {
                    let children = place * Self.branches + 1
                    guard children < heap.count else { break }
                    var least = children
                    for child in children + 1..<min(children + Self.branches, heap.count)
                    where heap[child].time < heap[least].time { least = child }
                    guard heap[least].time < entry.time else { break }
                    heap[place] = heap[least]
                    Self.note(heap[place].job, at: place, places)
                    place = least
                }
                heap[place] = entry
                Self.note(entry.job, at: place, places)
            }
        }
    }

    private static func note(_ job: JobIndex, at place: Int, _ places: UnsafeMutableBufferPointer<Int32>) {
        if job != none { places[Int(job)] = Int32(truncatingIfNeeded: place) }
    }
}
