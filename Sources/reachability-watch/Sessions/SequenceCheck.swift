import Reachability

/// Finds holes in the numbering of a stream: the transitions that its listener was too slow for.
struct SequenceCheck {
    private var last: UInt64?

    /// Returns how many transitions are missing between the one before and this one.
    mutating func missed(before transition: Transition) -> UInt64 {
        defer { last = transition.sequence }
        guard let last, !transition.isBaseline, transition.sequence > last else { return 0 }
        return transition.sequence - last - 1
    }
}

/// Decides when to say that transitions were dropped: at most once a second, with all that were dropped meanwhile.
struct DropNotice {
    /// The shortest time between two notices.
    static let interval = Duration.seconds(1)

    /// Whether another process reads the lines, so that it can be the slow one.
    let hasReader: Bool
    private var lastNotice: Duration?
    /// Dropped and not said yet, by scope.
    private var waiting: [(scope: String, count: UInt64)] = []

    /// - Parameter hasReader: whether the output is a pipe or a socket.
    init(hasReader: Bool) { self.hasReader = hasReader }

    /// Counts transitions that were dropped, and returns the lines to write now.
    mutating func dropped(_ count: UInt64, of scope: String, now: Duration) -> [String] {
        if let index = waiting.firstIndex(where: { $0.scope == scope }) {
            let (sum, overflows) = waiting[index].count.addingReportingOverflow(count)
            waiting[index].count = overflows ? .max : sum
        } else {
            waiting.append((scope, count))
        }
        if let lastNotice, now - lastNotice < Self.interval { return [] }
        lastNotice = now
        return rest()
    }

    /// Returns the lines that were held back.
    mutating func rest() -> [String] {
        defer { waiting = [] }
        return waiting.map { scope, count in
            let subject = "\(count) \(count == 1 ? "transition" : "transitions") of \(scope) dropped: "
            return subject + (hasReader ? "standard output is read too slowly." : "they came faster than lines could be written.")
        }
    }
}
