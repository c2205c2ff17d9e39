public import Reachability

extension NetworkSourceConformance {
    /// A source to be checked, and what the suite needs to play with it.
    public struct Candidate: Sendable {
        /// The source, which has never run.
        public var source: any NetworkSource
        /// What it is asked.
        public var queries: [RouteQuery]
        /// The time that `deliver` asks the source to let pass.
        public var pause: Duration
        /// Lets the source's own time pass; `nil` if that is real time.
        public var passTime: (@Sendable (Duration) async throws -> Void)?
        /// Makes one change after the other.
        ///
        /// Each must show in the links, their addresses or the answers to ``queries``, and must not be undone by itself. When a
        /// closure returns the change has been made; its announcement may come before or after that.
        public var changes: [@Sendable () async throws -> Void]

        /// Interrupts the next dump, as a change of links or addresses would meanwhile (NLM_F_DUMP_INTR, netlink(7)); `nil` if that
        /// cannot be had, and ``Requirement/interruptions`` is not checked.
        public var interruptNextDump: (@Sendable () -> Void)?

        /// Makes a candidate.
        ///
        /// - Parameters:
        ///   - source: the source, which must not have run before.
        ///   - queries: what it is asked; by default about a root name server of each family.
        ///   - pause: the time that it is asked to let pass. For a source in real time, long against what its threads need.
        ///   - passTime: lets the source's own time pass; for a source whose time is real, nothing.
        ///   - changes: changes to the network; without any the suite does not check whether they are announced.
        ///   - interruptNextDump: interrupts the next dump; without it the suite does not check what becomes of an interrupted one.
        public init(
            _ source: some NetworkSource, queries: [RouteQuery] = Candidate.defaultQueries, pause: Duration = .milliseconds(100),
            passTime: (@Sendable (Duration) async throws -> Void)? = nil, changes: [@Sendable () async throws -> Void] = [],
            interruptNextDump: (@Sendable () -> Void)? = nil
        ) {
            self.source = source
            self.queries = queries
            self.pause = pause
            self.passTime = passTime
            self.changes = changes
            self.interruptNextDump = interruptNextDump
        }

        /// Routes to 198.41.0.4 and 2001:503:ba3e::2:30.
        public static let defaultQueries = [
            RouteQuery(to: IPAddress(family: .ipv4, value: 0xc629_0004)),
            RouteQuery(to: IPAddress(family: .ipv6, value: 0x2001_0503_ba3e << 80 | 0x2_0030)),
        ]
    }
}
