import CommandKit
import Reachability
import ReachableFleet

/// The work of `wait --node`: returns once every scope and every node has the wanted status at once.
///
/// A node is satisfied while it is online or degraded, and unsatisfied while the broker knows that it is not. Without a present
/// word it is neither: the wait goes on.
struct NodeWait: Sendable {
    let visit: FleetVisit
    let scopes: [Scope]
    let nodes: [FleetName]
    /// The status to wait for.
    var target = NetworkPath.Status.satisfied
    var timeout: Duration?
    /// The clock of the timeout.
    ///
    /// It must include the time of suspend.
    var clock: any Clock<Duration> = ContinuousClock()

    /// The result.
    struct Outcome: Sendable {
        var status: ExitStatus
        /// The error that ended the wait.
        var error: ReachabilityError?
        /// The state of each scope and node at the end, in words.
        var states: [String] = []
    }

    /// Waits until everything has the target status, the timeout passes, or the monitor ends.
    ///
    /// The last states are those of one moment for the scopes, and of one for the nodes.
    func run() async -> Outcome {
        let (checks, check) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let changes = visit.member.changes
        let session = MonitorSession(monitor: visit.monitor, scopes: scopes, isRaw: true, timeLimit: timeout, clock: clock)
        return await withTaskGroup(of: Outcome?.self) { group in
            group.addTask { [visit] in
                await visit.member.run()
                return nil
            }
            group.addTask {
                for await _ in changes { check.yield() }
                return nil
            }
            group.addTask {
                for await _ in checks where isReached { return Outcome(status: .yes, states: states) }
                return nil
            }
            group.addTask {
                let end = await session.run { _, transition in
                    check.yield()
                    return transition.current.status == .unknown && transition.cause.kind != .ended ? .unknown : nil
                }
                return self.outcome(end)
            }
            // The members of the group that end without an outcome are followed by one that has it.
            var outcome: Outcome?
            while outcome == nil, let next = await group.next() { outcome = next }
            group.cancelAll()
            return outcome ?? Outcome(status: .unknown)
        }
    }

    private func outcome(_ end: MonitorSession.End) -> Outcome {
        switch end {
        case .stopped(let status): Outcome(status: status, states: states)
        case .timeUp: Outcome(status: .no, states: states)
        case .monitorEnded(let error): Outcome(status: error.map(ExitStatus.init) ?? .unknown, error: error, states: states)
        }
    }

    private var isReached: Bool {
        visit.monitor.lastPaths(to: scopes).allSatisfy { $0.status == target }
            && statuses(visit.member.nodes).allSatisfy { $0 == target }
    }

    /// Returns the status of each node.
    func statuses(_ picture: FleetPicture) -> [NetworkPath.Status] {
        let known = Dictionary(uniqueKeysWithValues: picture.nodes.map { ($0.name, $0.state) })
        return nodes.map { name in
            switch known[name] {
            case .unknown: .unknown
            case let state?: state.isPresent ? .satisfied : .unsatisfied
            case nil: picture.isCurrent ? .unsatisfied : .unknown
            }
        }
    }

    private var states: [String] {
        let paths = zip(scopes, visit.monitor.lastPaths(to: scopes)).map { statusLine($1, of: $0, .text, TextStyle()) }
        let picture = visit.member.nodes
        let obstacle = picture.isCurrent ? nil : visit.obstacle
        let known = Dictionary(uniqueKeysWithValues: picture.nodes.map { ($0.name, $0) })
        return paths
            + nodes.map { name in
                guard let node = known[name] else {
                    return "node \(name): \(obstacle.map { "unknown: \($0)" } ?? "has not announced itself")"
                }
                let reason = obstacle ?? node.reasonText
                return "node \(name): \(node.state.rawValue)\(reason.map { ": \($0)" } ?? "")"
            }
    }
}
