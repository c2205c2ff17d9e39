/// A snapshot of all nodes of a site.
public struct FleetPicture: Hashable, Sendable {
    /// The number of the last change that it includes.
    public var sequence: UInt64
    /// The time since which the picture is unknown, since 1970-01-01T00:00:00Z; `nil` while it is current.
    ///
    /// It is unknown while the broker is not connected, and until its stored words have come.
    public var unknownSince: Duration?
    /// The nodes, ordered by name.
    public var nodes: [FleetNode]

    /// True if the broker has sent its words, and is still connected.
    public var isCurrent: Bool { unknownSince == nil }
}

/// One change of a fleet's picture.
public struct FleetChange: Hashable, Sendable {
    /// The sort of change.
    public enum Kind: Hashable, Sendable {
        /// The picture is current: read all nodes.
        case current
        /// The broker is lost: the states of all nodes are unknown.
        case unknown
        /// Levels that were kept without a word of their node are kept no longer: read all conditions.
        case keptLongEnough
        /// A node has another state, reason or run.
        case node(FleetNode)
        /// A node was removed: an operator forgot it, or the broker has no word of it.
        case removed(FleetName)
        /// Another machine has this node's name; with the identifier of its run.
        ///
        /// If this machine came later, it is silent for 60 s.
        case nameInUse(by: FleetName, isSilent: Bool)
    }

    /// The number of the change, without holes.
    public var sequence: UInt64
    /// The sort of change.
    public var kind: Kind
}

/// The level of a node's condition after its picture was unknown for 60 s.
public enum UnknownNodePolicy: Hashable, Sendable, CaseIterable {
    /// Work starts: local reachability stays the authority.
    case failOpen
    /// Work waits until the picture is current.
    case failClosed
}

/// The numbers of messages that were ignored.
public struct FleetCounts: Hashable, Sendable {
    /// Messages that cannot be read, on topics of the site or on others.
    public var malformed = 0
    /// Messages above 1 KiB.
    public var oversized = 0
    /// Messages of another version.
    public var foreignVersion = 0
    /// Words that a later word of the node had overtaken, and repeated ones.
    public var outdated = 0
    /// Words of nodes above the limit of 65 536, which keeps a mistaken client from filling the memory.
    public var tooMany = 0
    /// Triggers that were repeated, stored by the broker, or too late.
    public var ignoredTriggers = 0

    /// Creates counts of zero.
    public init() {}
}

/// A request of an operator to all nodes of a site.
public struct FleetTrigger: Hashable, Sendable {
    /// The name that says what to do.
    public var name: FleetName
    /// The run of the operator's process.
    public var sender: FleetName
    /// The number of the trigger among those of its sender.
    public var sequence: UInt64
    /// The time after which no node acts on it, since 1970-01-01T00:00:00Z.
    public var deadline: Duration
}
