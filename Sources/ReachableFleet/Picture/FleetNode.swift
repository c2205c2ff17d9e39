/// A node of the fleet, as its last word and the connection to the broker show it.
public struct FleetNode: Hashable, Sendable, CustomStringConvertible {
    /// The state of a node.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// The node reaches its network.
        case online
        /// The node reaches its network, with a defect that it names.
        case degraded
        /// The node reaches the broker, and not its network.
        case offline
        /// The node has ended in order.
        case disconnected
        /// The broker has lost the node: a crash, a frozen process, or a dead line.
        case lost
        /// There is no present word: the broker is not connected, or has sent no word of the node since it is.
        case unknown

        /// True if the node was connected when it was in this state.
        var isConnected: Bool { self == .online || self == .degraded || self == .offline }
        /// True if work that needs the node may start.
        var isPresent: Bool { self == .online || self == .degraded }
    }

    /// The name, unique within the site.
    public var name: FleetName
    /// The present state: ``State/unknown`` while the broker is not connected, never ``State/offline`` for that.
    public var state: State
    /// The state of the last word; the same as ``state`` unless that is unknown.
    public var lastState: State
    /// The reason of the last word, such as the name of an `OfflineReason`; `nil` if it has none.
    public var reason: String?
    /// The time since which the node has been in ``lastState``, by its own clock, since 1970-01-01T00:00:00Z.
    ///
    /// For ``State/lost`` it is the start of the lost connection: the node cannot say when it ends.
    public var since: Duration
    /// The time of the last sign of life by this machine's clock, since 1970-01-01T00:00:00Z.
    ///
    /// For words from before this machine's connection it is ``since``.
    public var lastSeen: Duration
    /// True if the node is disconnected or lost, and was last seen 30 days ago or earlier.
    ///
    /// Only an operator removes it.
    public var isOld: Bool
    /// The identifier of the node's run, another one after each restart.
    public var run: FleetName
    /// The number of the node's connection: it only grows.
    public var epoch: UInt64
    /// The number of the word within its run.
    public var sequence: UInt64

    /// The name with the state.
    public var description: String {
        let reason = reason.map { ", \($0)" } ?? ""
        return state == .unknown ? "\(name) unknown, last \(lastState.rawValue)\(reason)" : "\(name) \(state.rawValue)\(reason)"
    }
}
