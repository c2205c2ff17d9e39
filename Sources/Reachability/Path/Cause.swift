/// The cause of a transition, such as a kernel event or a timer, in words and as data.
public struct Cause: Hashable, Sendable, CustomStringConvertible {
    /// The sort of cause.
    ///
    /// More may be added.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        /// The stable name, as in JSON.
        public let rawValue: String
        /// Makes a kind from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The monitor started, or the scope was first watched.
        public static let started = Kind(rawValue: "started")
        /// The monitor ended.
        public static let ended = Kind(rawValue: "ended")
        /// An interface appeared, was set up or got carrier.
        public static let linkUp = Kind(rawValue: "linkUp")
        /// An interface was shut down or lost its carrier.
        public static let linkDown = Kind(rawValue: "linkDown")
        /// An interface is gone: deleted, or moved to another namespace.
        public static let linkRemoved = Kind(rawValue: "linkRemoved")
        /// An interface was renamed, or changed in another way.
        public static let linkChanged = Kind(rawValue: "linkChanged")
        /// An address was added or became usable.
        public static let addressAdded = Kind(rawValue: "addressAdded")
        /// An address was removed.
        public static let addressRemoved = Kind(rawValue: "addressRemoved")
        /// A route was added or replaced.
        public static let routeAdded = Kind(rawValue: "routeAdded")
        /// A route was removed.
        public static let routeRemoved = Kind(rawValue: "routeRemoved")
        /// A policy rule was added or removed.
        public static let ruleChanged = Kind(rawValue: "ruleChanged")
        /// A nexthop object was added, replaced or removed.
        public static let nexthopChanged = Kind(rawValue: "nexthopChanged")
        /// A sysctl of an interface changed (RTM_NEWNETCONF).
        public static let netconfChanged = Kind(rawValue: "netconfChanged")
        /// A gateway answers again, or does not answer any more.
        public static let neighbourChanged = Kind(rawValue: "neighbourChanged")
        /// No event: a periodic audit found the change.
        public static let audit = Kind(rawValue: "audit")
        /// A resync after a loss of events.
        public static let eventsLost = Kind(rawValue: "eventsLost")
        /// The name of a host was looked up.
        public static let hostLookedUp = Kind(rawValue: "hostLookedUp")
        /// A validator checked the far end.
        public static let validation = Kind(rawValue: "validation")
        /// The monitor is blind: no request succeeds, for lack of descriptors or memory.
        public static let blinded = Kind(rawValue: "blinded")
        /// The machine woke from suspension.
        public static let resumed = Kind(rawValue: "resumed")
    }

    /// The sort of cause.
    public var kind: Kind {
        get { storage.kind }
        set { storage = Storage(newValue, storage.interface, storage.words) }
    }
    /// The cause in words, such as `eth0 lost carrier`.
    ///
    /// Interface names in it are as the kernel has them: escape it before it reaches a terminal.
    public var detail: String {
        get { storage.words.text }
        set { storage = Storage(storage.kind, storage.interface, .text(newValue)) }
    }
    /// The interface of the event, if it names one.
    public var interface: NetworkInterface.Identity? {
        get { storage.interface }
        set { storage = Storage(storage.kind, newValue, storage.words) }
    }

    /// The cause in words, or the event that they are made from on demand: most programs never read them.
    private enum Words: Sendable {
        case text(String)
        case event(InterpretedEvent)

        var text: String {
            switch self {
            case .text(let text): text
            case .event(let event): event.text
            }
        }
    }

    // Shared, because each transition is copied to many listeners and the cause is its largest part.
    private final class Storage: Sendable {
        let kind: Kind
        let interface: NetworkInterface.Identity?
        let words: Words

        init(_ kind: Kind, _ interface: NetworkInterface.Identity?, _ words: Words) {
            (self.kind, self.interface, self.words) = (kind, interface, words)
        }
    }

    private var storage: Storage

    /// Makes a cause.
    public init(_ kind: Kind, _ detail: String, interface: NetworkInterface.Identity? = nil) {
        storage = Storage(kind, interface, .text(detail))
    }

    /// Makes the cause of an event.
    package init(_ event: InterpretedEvent) { storage = Storage(event.causeKind, event.interface, .event(event)) }

    /// The cause in words.
    public var description: String { detail }

    /// Returns true if kind, words and interface are the same.
    public static func == (one: Cause, other: Cause) -> Bool {
        one.storage === other.storage
            || (one.kind == other.kind && one.interface == other.interface && one.detail == other.detail)
    }

    /// Hashes kind, words and interface.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        hasher.combine(interface)
        hasher.combine(detail)
    }
}
