internal import DequeModule

/// The key of a chain: a serial key within a queue, or a unique key within a queue and kind.
struct ChainKey: Hashable, Sendable {
    var queue: Int32
    /// `nil` for a serial key.
    var kind: String?
    var key: String

    /// True if a job keeps the jobs behind it waiting.
    func isBlocking(_ job: StoredJob) -> Bool { kind == nil ? job.blocksSerially : !job.state.isFinal }
}

/// The jobs with one key that run one after the other, by position.
///
/// Jobs that have ended are removed at both ends at once, in the middle when the chain grows.
struct KeyChain: Sendable {
    /// The number of members from which ended ones are removed.
    private static let smallest = 16

    private var members: Deque<Int64> = []
    private var sweepsAt = smallest
    /// The running member.
    private(set) var running: Int64?

    /// The number of members, some of which may have ended.
    var count: Int { members.count }
    /// The first job that others wait for.
    var first: Int64? { members.first }
    /// The last one.
    var last: Int64? { members.last }

    /// True if a member may be claimed.
    func admits(_ position: Int64) -> Bool { members.first == position && (running ?? position) == position }

    /// Takes note of the state of a job.
    mutating func update(_ position: Int64, _ key: ChainKey, _ jobs: StoredJobTable) {
        let isLive = { (position: Int64) in jobs.job(at: position).map(key.isBlocking) ?? false }
        let job = jobs.job(at: position)
        if job?.state == .running { running = position } else if running == position { running = nil }
        if let job, key.isBlocking(job) {
            if members.count >= sweepsAt {
                members.removeAll { !isLive($0) }
                sweepsAt = max(Self.smallest, members.count * 2)
            }
            insert(position)
        }
        while let first = members.first, !isLive(first) { members.removeFirst() }
        while let last = members.last, !isLive(last) { members.removeLast() }
    }

    /// True if an unfinished job is behind a member.
    func hasFollowers(of position: Int64, _ jobs: StoredJobTable) -> Bool {
        for member in members.reversed() {
            guard member > position else { return false }
            if let job = jobs.job(at: member), !job.state.isFinal { return true }
        }
        return false
    }

    private mutating func insert(_ position: Int64) {
        guard let last = members.last, last >= position else { return members.append(position) }
        var (low, high) = (0, members.count)
        while low < high {
            let middle = (low + high) / 2
            if members[middle] < position { low = middle + 1 } else { high = middle }
        }
        if low == members.count || members[low] != position { members.insert(position, at: low) }
    }
}
