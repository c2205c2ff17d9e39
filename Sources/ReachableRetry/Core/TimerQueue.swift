/// The place of a job in the tables of its bus.
package typealias JobIndex = Int32

/// The times of the jobs, the earliest first; a job has at most one.
///
/// A heap of four branches that knows where each job's time is: jobs arm timers to take most of them back. To do that is to mark
/// its place as vacant, which touches no other; when two thirds are vacant, they are cleared away. The heap of swift-collections
/// does not tell where things are: to ask each job whether a time still counts costs twice as much among a million.
package struct TimerQueue: Sendable {
    private struct Entry {
        var time: BusTime
        var job: JobIndex
    }

    private static let branches = 4
    /// The job of an entry that was taken back.
    private static let nobody: JobIndex = -1
    /// So many vacant places are left alone, and so many idle places of jobs when there is no time left.
    private static let (mostVacant, mostIdle) = (64, 256)

    private var heap: [Entry] = []
    private var vacant = 0
    /// Where each job's time is in the heap; -1 if it has none.
    private var places: [Int32] = []

    package init() {}

    /// How many times there are.
    package var count: Int { heap.count - vacant }

    /// The earliest time; never if there is none.
    package var earliest: BusTime { heap.first?.time ?? .never }

    /// For how many there is room.
    package var capacity: Int { max(heap.capacity, places.capacity) }

    /// Whether a job has a time.
    package func isArmed(_ job: JobIndex) -> Bool { Int(job) < places.count && places[Int(job)] >= 0 }

    /// Sets a job's time, instead of one that it may have.
    package mutating func arm(_ job: JobIndex, at time: BusTime) {
        while places.count <= Int(job) { places.append(-1) }
        let entry = Entry(time: time, job: job)
        let place = places[Int(job)]
        if place >= 0 {
            settle(entry, at: Int(place))
            // What came up in its place may be vacant.
            if place == 0 { uncoverFirst() }
        } else {
            heap.append(entry)
            rise(entry, from: heap.count - 1)
        }
    }

    /// Takes back a job's time, if it has one.
    package mutating func cancel(_ job: JobIndex) {
        guard isArmed(job) else { return }
        vacate(Int(places[Int(job)]), of: job)
        if vacant > Self.mostVacant, vacant > heap.count / 3 * 2 { clearAway() }
    }

    /// The job whose time has come first; its time is gone.
    package mutating func popDue(at now: BusTime) -> JobIndex? {
        guard let first = heap.first, first.time <= now else { return nil }
        vacate(0, of: first.job)
        return first.job
    }

    private mutating func vacate(_ place: Int, of job: JobIndex) {
        places[Int(job)] = -1
        heap[place].job = Self.nobody
        vacant += 1
        if place == 0 { uncoverFirst() }
        if heap.isEmpty, places.count > Self.mostIdle { (heap, places) = ([], []) }
    }

    /// The first place is never vacant.
    private mutating func uncoverFirst() {
        while let first = heap.first, first.job == Self.nobody {
            vacant -= 1
            let last = heap.removeLast()
            if !heap.isEmpty { sink(last, from: 0) }
        }
    }

    private mutating func clearAway() {
        heap.removeAll { $0.job == Self.nobody }
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

    /// Finds the place of an entry at or above a place whose own is not needed any more.
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

    /// The same at or below a place.
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
        if job != nobody { places[Int(job)] = Int32(truncatingIfNeeded: place) }
    }
}
