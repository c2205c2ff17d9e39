internal import HeapModule

/// Where jobs that may start stand in line.
enum QueueClass: UInt8, CaseIterable {
    /// Jobs that were submitted by a running attempt: they use its place, or that attempt could wait for ever.
    case nested
    /// Jobs that do not wait for their scope: nothing but the bus's own limit holds them.
    case unbound
    /// Jobs that opted out of the release policy.
    case bypass
    case interactive
    case normal
    case bulk

    init(_ job: JobState) {
        if !job.waitsForScope {
            self = .unbound
        } else if job.history.parent != nil {
            self = .nested
        } else if job.rules.bypassesGate {
            self = .bypass
        } else {
            switch job.priority {
            case .interactive: self = .interactive
            case .normal: self = .normal
            case .bulk: self = .bulk
            }
        }
    }

    /// Whether its jobs need their scope to be satisfied.
    var waitsForScope: Bool { self != .unbound }

    /// Whether the release policy decides.
    var isGated: Bool { self == .interactive || self == .normal || self == .bulk }
}

/// A job's place in line: the most urgent and oldest first.
struct QueuePosition: Hashable, Comparable, Sendable {
    /// None yet: it is given when the job stands in line.
    static let none = QueuePosition(rawValue: .max)

    private let rawValue: UInt64

    private init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameter number: grows with each place that is given; 2^56 of them are enough for a thousand years.
    init(_ priority: JobPriority, _ number: UInt64) {
        rawValue = UInt64(JobPriority.interactive.rawValue - priority.rawValue) << 56 | (number & (1 << 56 - 1))
    }

    var number: UInt64 { rawValue & (1 << 56 - 1) }

    var priority: JobPriority { JobPriority(rawValue: JobPriority.interactive.rawValue - Int(rawValue >> 56)) ?? .bulk }

    static func < (left: QueuePosition, right: QueuePosition) -> Bool { left.rawValue < right.rawValue }
}

/// The jobs in one lane of a gate.
///
/// To take a job out is to count it: what is left of it is thrown away when it comes up, or when it is more than half of all.
struct GateQueue: Sendable {
    struct Entry: Comparable, Sendable {
        var position: QueuePosition
        var job: JobIndex

        static func < (left: Entry, right: Entry) -> Bool { left.position < right.position }
    }

    private var heap = Heap<Entry>()
    /// How many stand in it.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ entry: Entry) {
        heap.insert(entry)
        count += 1
    }

    /// A job has left.
    mutating func remove(isCurrent: (Entry) -> Bool) {
        count -= 1
        if count == 0 {
            heap = Heap()
        } else if heap.count > 2 * count + 32 {
            heap = Heap(heap.unordered.filter(isCurrent))
        }
    }

    /// The first in line.
    mutating func first(isCurrent: (Entry) -> Bool) -> Entry? {
        while let entry = heap.min {
            if isCurrent(entry) { return entry }
            heap.removeMin()
        }
        return nil
    }

    /// All that stand in it, in no order.
    func entries(isCurrent: (Entry) -> Bool) -> [Entry] { heap.unordered.filter(isCurrent) }
}
