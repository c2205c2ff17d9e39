public import Logging
public import Reachability

extension FleetMember {
    /// The options of a member.
    public struct Configuration: Sendable {
        /// The destination whose path is this node's state: online, degraded or offline.
        ///
        /// A path whose validation failed, as behind a captive portal, is degraded.
        public var scope = Scope.internet
        /// The folder in which the node keeps the number of its last connection; `nil` keeps none.
        ///
        /// The folder exists already, and only the program's user may write to it. The file has mode 0600. Without it the word
        /// that the broker has stored of this node tells the number.
        public var stateDirectory: String?
        /// The number of ``FleetMember/changes`` and ``FleetMember/triggers`` that wait for a slow listener before the oldest are
        /// dropped; values below 1 are treated as 1.
        public var bufferedChanges = 4096
        /// The log of connections and their failures; `nil` logs nothing.
        public var logger: Logger?

        /// The interval of the keep-alive: the broker notices a silent loss after 1.5 of them (MQTT 3.1.1 §3.1.2.10).
        ///
        /// libmosquitto takes no less than 5 s.
        package var keepAlive = FleetMember.keepAlive

        /// Creates the default configuration.
        public init() {}
    }

    package static let keepAlive = FleetCore.keepAlive
}
