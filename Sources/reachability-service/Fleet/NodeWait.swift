import CommandKit
import Reachability
import ReachableFleet
import Synchronization

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
        let latest = LastStates(scopes.count)
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
                for await _ in checks where isReached { return self.outcome(.stopped(.yes), latest) }
                return nil
            }
            group.addTask {
                let end = await session.run { index, transition in
                    latest.set(transition, at: index)
                    check.yield()
                    return transition.current.status == .unknown && transition.cause.kind != .ended ? .unknown : nil
                }
                return self.outcome(end, latest)
            }
            // The members of the group that end without an outcome are followed by one that has it.
            var outcome: Outcome?
            while outcome == nil, let next = await group.next() { outcome = next }
            group.cancelAll()
            return outcome ?? Outcome(status: .unknown)
        }
    }

    private func outcome(_ end: MonitorSession.End, _ latest: LastStates) -> Outcome {
        let states = states(latest.paths)
        return switch end {
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

    private func states(_ paths: [NetworkPath]) -> [String] {
        let paths = zip(scopes, paths).map { statusLine($1, of: $0, .text, TextStyle()) }
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

/// The last path of each scope: the monitor forgets them at its end.
private final class LastStates: Sendable {
    private let values: Mutex<[NetworkPath]>

    init(_ count: Int) { values = Mutex(Array(repeating: .unknown, count: count)) }

    var paths: [NetworkPath] { values.withLock(\.self) }

    func set(_ transition: Transition, at index: Int) {
        guard transition.cause.kind != .ended else { return }
        values.withLock { $0[index] = transition.current }
    }
}
