/// The name of a destination in topics: a hash of the destination's name and the site.
///
/// Names of servers stay off the broker, fit in a topic whatever their characters are, and differ between sites. It is no secret: a
/// reader who guesses a name can check the guess, as with any hash without a key. Of a million destinations two share a hash in
/// one case of 37 million; then they share their words, and wait for each other for at most 5 s.
struct DestinationHash: Hashable, Comparable, Sendable {
    private let number: UInt64

    init(_ destination: String, site: FleetName) { number = StableHash.of("\(site)/\(destination)") }

    /// Reads the level of a topic: 16 digits of 0-9 a-f.
    init?(_ text: some StringProtocol) {
        let isDigits =
            text.utf8.count == 16
            && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (97...102).contains($0) }
        guard isDigits, let number = UInt64(text, radix: 16) else { return nil }
        self.number = number
    }

    var text: String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    static func < (left: DestinationHash, right: DestinationHash) -> Bool { left.number < right.number }

    /// Returns the place of a node in the order in which the machines of a site try the destination after an edge.
    ///
    /// - Parameter edge: The number of the edge, so that it is another machine's turn each time.
    func order(of node: FleetName, edge: UInt64) -> UInt64 { StableHash.of("\(node)/\(text)/\(edge)") }
}

/// The word of a node about a destination.
struct DestinationWord: Hashable, Sendable {
    /// The state of the destination as the node found it since its last edge.
    enum Finding: String, Hashable, Sendable {
        /// The node's jobs wait, and it has found nothing yet.
        case waiting
        /// It serves the node.
        case answering
        case overloaded
        /// It does not answer, refuses connections, or fails.
        case unreachable
    }

    var finding: Finding
    /// The time of the finding, in seconds since 1970.
    var time: UInt64
    /// The end of an overload, in seconds since 1970.
    var until: UInt64?
    /// The number of jobs that wait.
    var waiting: UInt64
    /// The duration of the answered attempt, in milliseconds.
    var took: UInt64?
}
