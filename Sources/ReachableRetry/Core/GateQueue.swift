internal import HeapModule

/// The class of a queued job; each gate has one queue per class.
enum QueueClass: UInt8, CaseIterable {
    /// Jobs that do not wait for their scope. The bus's limit and delays ordered by a server apply.
    case unbound
    /// Jobs that opted out of the release policy; delays ordered by a server apply.
    case bypass
    case interactive
    case normal
    case bulk

    init(_ job: JobState) {
        if !job.waitsForScope {
            self = .unbound
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

    /// True if its jobs wait for their scope.
    var waitsForScope: Bool { self != .unbound }

    /// True if the release policy applies.
    var isGated: Bool { self == .interactive || self == .normal || self == .bulk }
}

/// A job's position in a queue: the most urgent and oldest first.
struct QueuePosition: Hashable, Comparable, Sendable {
    /// No position; the job gets one when it is queued.
    static let none = QueuePosition(rawValue: .max)

    private let rawValue: UInt64

    private init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameter number: Grows with each position; 2^56 of them are enough for a thousand years.
    init(_ priority: JobPriority, _ number: UInt64) {
        rawValue = UInt64(JobPriority.interactive.rawValue - priority.rawValue) << 56 | (number & (1 << 56 - 1))
    }

    var number: UInt64 { rawValue & (1 << 56 - 1) }

    var priority: JobPriority { JobPriority(rawValue: JobPriority.interactive.rawValue - Int(rawValue >> 56)) ?? .bulk }

    static func < (left: QueuePosition, right: QueuePosition) -> Bool { left.rawValue < right.rawValue }
}

/// The jobs of one class at a gate.
///
/// Removing a job only counts it. Its entry is dropped when it comes first, or when more than half of all entries are stale.
struct GateQueue: Sendable {
    struct Entry: Comparable, Sendable {
        var position: QueuePosition
        var job: JobIndex
        /// The job's ``JobState/queueings``: a job that leaves and comes back has another entry, at the same position.
        var queueing: UInt32

        static func < (left: Entry, right: Entry) -> Bool { left.position < right.position }
    }

    private var heap = Heap<Entry>()
    /// The number of queued jobs.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ entry: Entry) {
        heap.insert(entry)
        count += 1
    }

    /// Removes a job.
    mutating func remove(isCurrent: (Entry) -> Bool) {
        count -= 1
        if count == 0 {
            heap = Heap()
        } else if heap.count > 2 * count + 32 {
            heap = Heap(heap.unordered.filter(isCurrent))
        }
    }

    /// Returns the first job, dropping stale entries before it.
    mutating func first(isCurrent: (Entry) -> Bool) -> Entry? {
        while let entry = heap.min {
            if isCurrent(entry) { return entry }
            heap.removeMin()
        }
        return nil
    }

    /// Returns all queued jobs, unordered.
    func entries(isCurrent: (Entry) -> Bool) -> [Entry] { heap.unordered.filter(isCurrent) }
}
