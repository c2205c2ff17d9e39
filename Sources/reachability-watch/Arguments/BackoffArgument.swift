import ReachableRetry

/// A backoff as it is written on the command line: `immediate`, `constant:2s`, `linear:1s+1s`, `exponential:500ms..30s` or
/// `fibonacci:1s..60s`.
///
/// The part behind the two dots is the longest delay; without it there is none.
struct BackoffArgument: Sendable {
    /// The backoff, without jitter.
    let backoff: Backoff

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        guard let backoff = Self.parse(text) else {
            throw InvalidArgument(
                "a backoff is written like immediate, constant:2s, linear:1s+1s, exponential:500ms..30s or fibonacci:1s..60s")
        }
        self.backoff = backoff
    }

    private static func parse(_ text: String) -> Backoff? {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first else { return nil }
        guard parts.count == 2 else { return name == "immediate" ? .immediate : nil }
        let range = parts[1].split(separator: "..", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let first = range.first else { return nil }
        var maximum: Duration?
        if range.count == 2 {
            guard let limit = duration(range[1]) else { return nil }
            maximum = limit
        }
        switch name {
        case "constant": return maximum == nil ? duration(first).map(Backoff.constant) : nil
        case "exponential": return duration(first).map { .exponential(initial: $0, maximum: maximum) }
        case "fibonacci": return duration(first).map { .fibonacci(unit: $0, maximum: maximum) }
        case "linear":
            let terms = first.split(separator: "+", omittingEmptySubsequences: false).map { duration(String($0)) }
            guard terms.count == 2, let initial = terms[0], let increment = terms[1] else { return nil }
            return .linear(initial: initial, increment: increment, maximum: maximum)
        default: return nil
        }
    }

    private static func duration(_ text: String) -> Duration? { (try? DurationArgument(text))?.duration }
}
