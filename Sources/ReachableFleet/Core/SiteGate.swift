internal import ReachableRetry

/// The site's part in one destination of this machine, since the last edge.
///
/// ```
/// idle ──edge──▶ joining ──picture──▶ canary ─────────────────────────────▶ answered
///                   │  ╰─────────▶ held by another ──its answer, 5 s──▶ released ──▲
///                   ╰──0.9 s without a picture, broker lost▶ released ─────────────╯
/// ```
struct SiteGate: Sendable {
    /// The longest wait for another machine, after which the next one tries.
    static let patience = Duration.seconds(5)
    /// The wait for nodes that have not come back; ends before the bus's own.
    static let pictureTime = Duration.milliseconds(900)
    /// The time after an edge in which a node that is offline may say that it is back.
    ///
    /// Its connection may have outlived the outage: TCP then repeats what it has after up to the length of the outage.
    static let returnTime = Duration.seconds(2)
    /// The attempts of all machines together that the site begins with; above this number of machines each has a share below one.
    static let window = 40
    /// The time between the starts of two machines if no word says how long an answer takes.
    static let usualStep = Duration.milliseconds(10)
    /// The shortest time between two words about a destination.
    static let pause = Duration.seconds(1)
    /// The time after which a share is looked at again, because others have ended.
    static let review = Duration.seconds(2)
    /// The difference of two machines' edges.
    static let slack = Duration.seconds(1)
    /// The edges of this many seconds have one number, so that all machines elect the same one.
    static let edgeLength: UInt64 = 64

    enum Phase: Hashable, Sendable {
        case idle
        /// Waits for the picture; the nodes are connected and have not said that they are back.
        ///
        /// `nil` without a picture at the edge: one that comes later is not complete at first, because others connect in the same
        /// moment.
        case joining(missing: Set<FleetName>?)
        /// Tries first.
        case canary
        /// Waits for a machine, or for the end of an overload.
        case held(by: FleetName?, until: BusTime)
        case released
        /// The destination answered this machine.
        case answered
    }

    let destination: String
    var phase = Phase.idle
    var edge: FleetInstant
    /// The number of jobs that wait, by bus.
    var jobs: [Int: Int] = [:]
    var finding = DestinationWord.Finding.waiting
    var foundAt: UInt64
    var overloadedUntil: UInt64?
    var took: Duration?
    /// The last share that the bus was told, and the time to look at it again.
    var share = 1
    /// The number of others that waited, too, when the broker was lost.
    var lastOthers = 0
    var reviewAt = BusTime.never
    /// The last word, and its time.
    var said: DestinationWord?
    var saidAt = BusTime.past
    /// True if the broker keeps a word of an earlier connection.
    var isStored = false
    /// True if there may be something to say.
    var hasNews = true

    init(_ destination: String, at now: FleetInstant) { (self.destination, edge, foundAt) = (destination, now, now.seconds) }

    var waiting: Int { jobs.values.reduce(0, +) }

    /// The numbers of the edge: near the end of one, clocks may disagree.
    var edges: [UInt64] {
        let numbers = [edge.wall - Self.slack, edge.wall + Self.slack].map { FleetInstant.seconds($0) / Self.edgeLength }
        return numbers[0] == numbers[1] ? [numbers[0]] : numbers
    }

    /// The time of the next decision.
    var due: BusTime {
        switch phase {
        case .joining: edge.time + Self.pictureTime
        case .held(_, let until): until
        case .released, .answered: share > 1 ? reviewAt : .never
        case .idle, .canary: .never
        }
    }

    /// Returns true if a word is about the time since the edge.
    func isFresh(_ word: DestinationWord, heardAt: BusTime, isRetained: Bool) -> Bool {
        guard isRetained else { return heardAt >= edge.time + (.zero - Self.slack) }
        return FleetInstant.seconds(edge.wall - Self.slack) <= word.time
    }

    /// True if others may wait for the news that the destination answers.
    var hasFirstAnswer: Bool { finding == .answering && said?.finding == .waiting }

    /// The time of the next word: others do not wait longer than they must.
    var speaksAt: BusTime { hasFirstAnswer ? .past : saidAt + Self.pause }

    /// The word that the site should have; `nil` while no job waits, after the answer was told.
    ///
    /// - Parameter isKnown: True if the site knows that the destination answers: it need not hear it from each machine.
    func word(isKnown: Bool) -> DestinationWord? {
        let waiting = UInt64(max(0, self.waiting))
        guard waiting > 0 || hasFirstAnswer && !isKnown else { return nil }
        let news = DestinationWord(
            finding: finding, time: foundAt, until: overloadedUntil, waiting: waiting,
            took: took.map { UInt64(clamping: $0.attoseconds / 1_000_000_000_000_000) })
        guard let said else { return news }
        let isNews =
            said.finding != finding && !(hasFirstAnswer && isKnown)
            || said.until != overloadedUntil || waiting >= 2 * said.waiting
        return isNews ? news : said
    }
}
