internal import ReachableRetry

/// The decisions about this node's own word: when to publish it, and with which numbers.
///
/// Pure: each call comes with the time. The own topic is the arbiter, because all machines read it in the same order: a word
/// holds if it is the last of its topic. Brokers publish the will of a session after the first word of the session that took it
/// over (measured with mosquitto 2.0), and another machine may have the same name.
struct Announcer: Sendable {
    /// The shortest time between two words of a node.
    static let pause = Duration.seconds(1)
    /// The longest wait for the own stored word, after the broker has confirmed the subscription; without one, none comes.
    static let longestJoin = Duration.seconds(1)
    /// The time that the later of two machines of one name is silent.
    static let silence = Duration.seconds(60)

    /// The next thing to do.
    enum Step: Hashable, Sendable {
        case none
        case publish(FleetWord)
        /// Ends the session: the word needs a higher epoch, and the session's will has the present one.
        ///
        /// The word takes the place of the will, which DISCONNECT drops: the machine may crash before its next session.
        case renew(FleetWord?)
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
        /// The time at which the broker confirmed the subscription.
        var subscribed: BusTime?
        /// True if a message of the own topic was read.
        var hasRead = false
        /// The last published word.
        var word: FleetWord?
        /// True if the own topic has shown the word.
        var isConfirmed = false
        /// True if the own topic has shown something else since.
        var isOverwritten = false
        /// True if the last word that was said may be the topic's last one, also after another machine has taken the name.
        var mayStand = false
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

    mutating func connected() { (session, isEpochUsed) = (Session(), true) }

    mutating func subscribed(at now: BusTime) {
        if session?.subscribed == nil { session?.subscribed = now }
    }

    mutating func disconnected() { session = nil }

    /// Returns the last word of a session that ends in order; `nil` while the topic is another machine's.
    mutating func farewell(at now: FleetInstant) -> FleetWord? {
        // While the machine is silent, the topic is another one's, unless this one's word came later. Before its first word it may
        // still be that of a run that crashed, which nothing else would end. Another machine that is there repeats its word.
        guard let session, silentUntil <= now.time || session.mayStand else { return nil }
        return makeWord(.disconnected, since: now.seconds)
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
        // What comes before the word was read may be older than it.
        if session.isConfirmed, !isOfSession, !isRetained { session.mayStand = false }
        if isOfSession, session.word == nil, word?.sequence == sequence { session.isConfirmed = true }
        // An earlier word of this session: the last one is still on its way.
        if isOfSession, !session.isConfirmed { return nil }
        // A stored message was there before the session's word.
        if !isRetained { session.isOverwritten = session.word != nil }
        guard let word, !isOfSession else { return nil }
        seen = max(seen, word.epoch)
        // A stored word may be that of a machine that is gone.
        let isAnswer = !isRetained && session.word != nil
        guard isAnswer, let rival = rival(word) else { return nil }
        if rival.isEarlier {
            silentUntil = now + Self.silence
            // The name is the rival's: this session has no word to keep up.
            session.word = nil
        }
        return rival
    }

    /// Returns the machine that wrote a word after this session's first one, if it is another one; a run before this one has ended.
    private func rival(_ word: FleetWord) -> Rival? {
        guard let first, word.run != run, word.state.isConnected else { return nil }
        if word.isOfLaterRun(than: run, first: first) { return Rival(run: word.run, isEarlier: false) }
        // Words of a run before this one may come late; an answer to this session's word has a higher epoch.
        guard word.epoch >= epoch else { return nil }
        return Rival(run: word.run, isEarlier: true)
    }

    // MARK: - Steps

    /// True if the session's epoch is not the highest of the own topic: others would drop its words.
    private var needsHigherEpoch: Bool { seen >= epoch && epoch < Self.largestEpoch }

    /// True if the session's word is not the node's, or not the topic's last one.
    private func needsWord(_ session: Session) -> Bool {
        guard let word = session.word else { return true }
        return needsHigherEpoch || session.isOverwritten || word.state != verdict.state || word.reason != verdict.reason
    }

    /// The time of the next step; `nil` if there is none.
    private var due: BusTime? {
        guard let session, needsWord(session) else { return nil }
        let earliest = max(silentUntil, lastStep + Self.pause)
        if session.hasRead || session.word != nil { return earliest }
        return session.subscribed.map { max(earliest, $0 + Self.longestJoin) }
    }

    /// The time at which ``takeStep(at:)`` has something to do.
    var wake: BusTime { due ?? .never }

    /// Takes the next step if its time has come.
    mutating func takeStep(at now: FleetInstant) -> Step {
        guard let due, due <= now.time else { return .none }
        lastStep = now.time
        if needsHigherEpoch {
            // Only a word that may stand needs an end. Before its first word the stored one may be the only one to tell the epoch.
            return .renew(session?.mayStand == true ? makeWord(.lost, since: now.seconds) : nil)
        }
        return .publish(makeWord(verdict.state, reason: verdict.reason, since: verdict.since))
    }

    private mutating func makeWord(_ state: FleetNode.State, reason: String? = nil, since: UInt64) -> FleetWord {
        sequence = min(sequence + 1, WordCoding.largestNumber)
        let first = self.first ?? epoch
        self.first = first
        let word = FleetWord(
            epoch: epoch, first: first, run: run, sequence: sequence, state: state, reason: reason, since: since)
        if var session {
            (session.word, session.isConfirmed, session.isOverwritten, session.mayStand) = (word, false, false, true)
            self.session = session
        }
        return word
    }
}
