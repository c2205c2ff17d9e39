/// One change of reachability, or the baseline of a stream.
public struct Transition: Sendable, CustomStringConvertible {
    /// The kinds of change between ``Transition/previous`` and ``Transition/current``.
    public struct Kinds: OptionSet, Hashable, Sendable {
        /// The members as bits.
        public let rawValue: UInt32
        /// Makes a set from its bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// Became satisfied.
        public static let online = Kinds(rawValue: 1 << 0)
        /// Became unsatisfied.
        public static let offline = Kinds(rawValue: 1 << 1)
        /// One more IP family works, while satisfied before and after.
        public static let familyGained = Kinds(rawValue: 1 << 2)
        /// One IP family fewer works, while satisfied before and after.
        public static let familyLost = Kinds(rawValue: 1 << 3)
        /// Packets leave through another interface, or it was renamed.
        public static let interfaceChanged = Kinds(rawValue: 1 << 4)
        /// A family's next hop changed.
        public static let gatewayChanged = Kinds(rawValue: 1 << 5)
        /// A family's source address changed: its connections are dead.
        public static let sourceChanged = Kinds(rawValue: 1 << 6)
        /// The path was lost, or led another way, and came back before that was published; connections may be dead.
        public static let reestablished = Kinds(rawValue: 1 << 7)
        /// The machine was suspended in between.
        public static let resumed = Kinds(rawValue: 1 << 8)
        /// A resync after a loss of events found the change.
        public static let resynced = Kinds(rawValue: 1 << 9)
        /// Still unsatisfied, for another reason.
        public static let reasonChanged = Kinds(rawValue: 1 << 10)
        /// ``NetworkPath/validation`` changed, while satisfied before and after.
        public static let validationChanged = Kinds(rawValue: 1 << 11)

        /// The stable names of the members, as in JSON.
        public var names: [String] {
            zip(0..., Self.allNames).compactMap { rawValue & 1 << UInt32($0) != 0 ? $1 : nil }
        }

        static let allNames = [
            "online", "offline", "familyGained", "familyLost", "interfaceChanged", "gatewayChanged", "sourceChanged",
            "reestablished", "resumed", "resynced", "reasonChanged", "validationChanged",
        ]
    }

    /// The number of the transition, counted per scope and kind of stream: a gap means that the listener fell behind its buffer.
    ///
    /// A baseline carries the number of the last transition before it.
    public var sequence: UInt64
    /// The number of times the scope became satisfied, or changed so much that waiting makes no sense.
    ///
    /// See ``Condition/State/epoch``.
    public var epoch: UInt64
    /// The path before, with details that changed without a transition; `nil` for a baseline.
    public var previous: NetworkPath?
    /// The path now.
    public var current: NetworkPath
    /// The kinds of change; empty for a baseline, and for the end of the monitor.
    public var kinds: Kinds
    /// The kernel's message or the timer that led to the transition.
    public var cause: Cause
    /// The time on the source's clock.
    public var at: BootInstant
    /// The time of day, since 1970-01-01T00:00:00Z; it jumps when the system's clock is set.
    public var wallTime: Duration
    /// The instability of the scope: each loss adds 1, which halves every 15 s (after RFC 2439).
    ///
    /// For information: it never delays or hides a transition.
    public var flapPenalty: Double
    /// The number of times that the path, or the carrier of its link, was lost since the transition before.
    ///
    /// A loss that this transition publishes counts, too. A damped stream publishes quick losses together: the sum over its
    /// transitions is the number of all losses.
    public var losses: Int

    /// Makes a transition, for tests and for publishers other than a monitor.
    public init(
        sequence: UInt64, epoch: UInt64, previous: NetworkPath?, current: NetworkPath, kinds: Kinds, cause: Cause, at: BootInstant,
        wallTime: Duration, flapPenalty: Double, losses: Int = 0
    ) {
        self.sequence = sequence
        self.epoch = epoch
        self.previous = previous
        self.current = current
        self.kinds = kinds
        self.cause = cause
        self.at = at
        self.wallTime = wallTime
        self.flapPenalty = flapPenalty
        self.losses = losses
    }

    /// True for the first element of a stream.
    public var isBaseline: Bool { previous == nil }

    /// The transition in words: `unsatisfied: no carrier (eth0 lost carrier)`.
    ///
    /// Interface names in it are as the kernel has them: escape it before it reaches a terminal.
    public var description: String { "\(current.status.rawValue): \(text())" }

    /// Returns the transition in words without its status: the kinds, the path and the cause.
    ///
    /// - Parameter elapsed: the length of the status before, in words.
    package func text(elapsed: String? = nil) -> String {
        let notes = [elapsed].compactMap(\.self) + kindsInWords
        let hasEnded = cause.kind == .ended
        let summary = hasEnded ? cause.detail : current.summary
        let text = notes.isEmpty ? summary : "\(notes.joined(separator: ", ")): \(summary)"
        let isExplained = cause.kind == .blinded || !isBaseline
        return !isExplained || hasEnded || cause.detail.isEmpty ? text : "\(text) (\(cause.detail))"
    }

    /// The kinds in words, without online and offline, which the status tells.
    private var kindsInWords: [String] {
        let gained = IPAddress.Family.allCases.filter { current[$0].isSatisfied && previous?[$0].isSatisfied == false }
        let lost = IPAddress.Family.allCases.filter { !current[$0].isSatisfied && previous?[$0].isSatisfied == true }
        let words: [(Kinds, String)] = [
            (.familyGained, "\(Self.names(gained)) gained"), (.familyLost, "\(Self.names(lost)) lost"),
            (.interfaceChanged, "interface changed"), (.gatewayChanged, "gateway changed"),
            (.sourceChanged, "source address changed"), (.reestablished, losses > 1 ? "regained" : "lost and regained"),
            (.resumed, "resumed from suspension"), (.resynced, "events were lost"), (.reasonChanged, "reason changed"),
            (.validationChanged, "validation changed"),
        ]
        return words.compactMap { kinds.contains($0) ? $1 : nil } + (losses > 1 ? ["after \(losses) losses"] : [])
    }

    private static func names(_ families: [IPAddress.Family]) -> String {
        families.isEmpty ? "a family" : families.map { $0 == .ipv4 ? "IPv4" : "IPv6" }.joined(separator: " and ")
    }
}
