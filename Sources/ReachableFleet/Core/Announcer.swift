internal import ReachableRetry

/// The decisions about this node's own word: when to publish it, and with which numbers.
///
/// Pure: each call comes with the time. The own topic is the arbiter, because all machines read it in the same order: a word
/// holds if it is the last of its topic. Brokers publish the will of a session after the first word of the session that took it
/// over (measured with mosquitto 2.0), and another machine may have the same name.
struct Announcer: Sendable {
    /// The shortest time between two words of a node.
    static let pause = Duration.seconds(1)
    /// The longest wait for the own retained word before the first word of a session; without one, none comes.
    static let longestJoin = Duration.seconds(1)
    /// The time that the later of two machines of one name is silent.
    static let silence = Duration.seconds(60)

    /// The next thing to do.
    enum Step: Hashable, Sendable {
        case none
        case publish(FleetWord)
        /// Ends the session in order: the word needs a higher epoch, and the session's will has the present one.
        case renew
    }

    /// Another machine that has the name.
    struct Rival: Hashable, Sendable {
        var run: FleetName
        /// True if this machine is the later one, which is silent from now on.
        var isEarlier: Bool
    }

    /// The local network's state, as the monitor publishes it.
    struct Verdict: Hashable, Sendable {
        var state: FleetNode.State
        var reason: String?
        var since: UInt64
    }

    /// A session with the broker.
    struct Session: Hashable, Sendable {
        let began: BusTime
        /// True if a message of the own topic was read.
        var hasRead = false
        /// The last published word.
        var word: FleetWord?
        /// True if the own topic has shown the word.
        var isConfirmed = false
        /// True if the own topic has shown something else since.
        var isOverwritten = false
    }

    private let run: FleetName
    /// The epoch of the present or next session.
    private(set) var epoch: UInt64
    /// True if a session had the epoch: the next one needs another.
    private(set) var isEpochUsed = true
    /// The highest epoch of the own topic that is not of this session.
    private(set) var seen: UInt64 = 0
    /// The epoch of this run's first word.
    private(set) var first: UInt64?
    private(set) var sequence: UInt64 = 0
    private(set) var verdict: Verdict
    private(set) var session: Session?
    /// The time of the last word, or of the last session that ended for a higher epoch.
    private(set) var lastStep = BusTime.past
    private(set) var silentUntil = BusTime.past

    /// - Parameter storedEpoch: The epoch of the last session; 0 if it is not known.
    init(run: FleetName, storedEpoch: UInt64, verdict: Verdict) {
        (self.run, self.verdict) = (run, verdict)
        epoch = min(storedEpoch, Self.largestEpoch)
    }

    // Words above the largest number are malformed: counting stops there.
    private static var largestEpoch: UInt64 { WordCoding.largestNumber }

    // MARK: - Sessions

    /// Chooses the epoch of the next session, and returns its will.
    ///
    /// The epoch grows with each session. A connection that failed may have begun one: its will has the same epoch then, and this
    /// node overwrites it.
    mutating func beginSession(at now: FleetInstant) -> FleetWord {
        session = nil
        if isEpochUsed || seen >= epoch { epoch = min(max(epoch, seen) + 1, Self.largestEpoch) }
        isEpochUsed = false
        // The will of a run's first session is read before its first word, if at all.
        return FleetWord(
            epoch: epoch, first: first ?? epoch, run: run, sequence: sequence, state: .lost, reason: nil, since: now.seconds)
    }

    mutating func connected(at now: BusTime) {
        (session, isEpochUsed) = (Session(began: now), true)
    }

    mutating func disconnected() { session = nil }

    /// Returns the last word of a session that ends in order; `nil` if it has said nothing that this would end.
    mutating func farewell(at now: FleetInstant) -> FleetWord? {
        // While the machine is silent, the topic is another one's.
        guard session?.word != nil, silentUntil <= now.time else { return nil }
        return makeWord(Verdict(state: .disconnected, reason: nil, since: now.seconds))
    }

    // MARK: - The local network

    mutating func take(_ state: FleetNode.State, reason: String?, at now: FleetInstant) {
        guard state.isConnected, state != verdict.state || reason != verdict.reason else { return }
        verdict = Verdict(state: state, reason: reason, since: now.seconds)
    }

    // MARK: - The own topic

    /// Takes a message of the own topic.
    ///
    /// - Parameter word: `nil` for one that says nothing: removed by an operator, or unreadable.
    /// - Parameter isRetained: True for the stored message that a subscription begins with.
    mutating func read(_ word: FleetWord?, isRetained: Bool, at now: BusTime) -> Rival? {
        guard var session else { return nil }
        defer { self.session = session }
        session.hasRead = true
        let isOfSession = word?.run == run && word?.epoch == epoch
        if let word, word == session.word {
            (session.isConfirmed, session.isOverwritten) = (true, false)
            return nil
        }
        // An earlier word of this session: the last one is still on its way.
        if isOfSession, word?.state != .lost, !session.isConfirmed { return nil }
        session.isOverwritten = session.word != nil
        guard let word, !isOfSession else { return nil }
        seen = max(seen, word.epoch)
        return rival(word, isAnswer: word.epoch >= epoch && !isRetained && session.word != nil, at: now)
    }

    /// Returns the machine that wrote a word, if it is another one that is there; a run before this one has ended.
    ///
    /// - Parameter isAnswer: True if the word was written after this session's first word, which it overtakes.
    private mutating func rival(_ word: FleetWord, isAnswer: Bool, at now: BusTime) -> Rival? {
        guard let first, word.run != run, word.state.isConnected else { return nil }
        if word.isOfLaterRun(than: run, first: first) { return Rival(run: word.run, isEarlier: false) }
        guard isAnswer else { return nil }
        silentUntil = now + Self.silence
        return Rival(run: word.run, isEarlier: true)
    }

    // MARK: - Steps

    /// True if the session's word is not the node's, or not the topic's last one.
    private func needsWord(_ session: Session) -> Bool {
        guard let word = session.word else { return true }
        return session.isOverwritten || word.state != verdict.state || word.reason != verdict.reason
    }

    /// The time of the next step; `nil` if there is none.
    private var due: BusTime? {
        guard let session, needsWord(session) else { return nil }
        let join = session.hasRead || session.word != nil ? session.began : session.began + Self.longestJoin
        return max(join, silentUntil, lastStep + Self.pause)
    }

    /// The time at which ``takeStep(at:)`` has something to do.
    var wake: BusTime { due ?? .never }

    /// Takes the next step if its time has come.
    mutating func takeStep(at now: FleetInstant) -> Step {
        guard let due, due <= now.time else { return .none }
        lastStep = now.time
        if seen >= epoch, epoch < Self.largestEpoch { return .renew }
        return .publish(makeWord(verdict))
    }

    private mutating func makeWord(_ verdict: Verdict) -> FleetWord {
        sequence = min(sequence + 1, WordCoding.largestNumber)
        let first = self.first ?? epoch
        self.first = first
        let word = FleetWord(
            epoch: epoch, first: first, run: run, sequence: sequence, state: verdict.state, reason: verdict.reason,
            since: verdict.since)
        if let began = session?.began { session = Session(began: began, hasRead: session?.hasRead ?? false, word: word) }
        return word
    }
}
