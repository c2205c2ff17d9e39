import Reachability
import ReachableJobs
import ReachableRetry

/// The reason that only a worker knows, found by a command of the same machine: no path to a job's scope.
enum NetworkReasons {
    /// The longest time for name servers.
    private static let timeLimit = Duration.seconds(1)
    /// The number of scopes to look up: more would say less about each.
    private static let most = 64

    /// Puts the missing path in the place of "waits for a worker of another process".
    ///
    /// Leaves the words as they are if the network is not the reason, or cannot be asked.
    static func add(to pending: inout [PendingDurableJob]) async {
        let scopes = Array(Set(pending.compactMap(undecidedScope(of:))).prefix(most))
        guard !scopes.isEmpty else { return }
        let found = await missing(scopes)
        put(into: &pending) { found[$0] }
    }

    /// Returns the scope of a job that may wait for its network, of which only a worker of another process knows.
    static func undecidedScope(of job: PendingDurableJob) -> Scope? {
        guard job.job.kind == WaitingCommands.name, job.reasons.map(\.kind) == [.otherWorker] else { return nil }
        return ScopeText.scope(from: job.job.scope)
    }

    /// Puts missing paths in the place of "waits for a worker of another process".
    ///
    /// - Parameter missing: Returns the missing layer of a scope; `nil` if none is missing.
    static func put(into pending: inout [PendingDurableJob], missing: (Scope) -> String?) {
        for index in pending.indices {
            guard let scope = undecidedScope(of: pending[index]), let words = missing(scope) else { continue }
            pending[index].reasons[0].kind = .network
            pending[index].reasons[0].words = WaitWords.waits(for: [WaitWords.network(scope, missing: words)])
        }
    }

    private enum Finding {
        case path(Scope, missing: String?)
        case timeUp
        case monitorEnded
    }

    /// Returns the missing layers of the scopes that are not reachable, as far as they are known in time.
    private static func missing(_ scopes: [Scope]) async -> [Scope: String] {
        let monitor = ReachabilityMonitor()
        // Subscribed before the monitor runs: the first transition has the verdict.
        let streams = scopes.map { ($0, monitor.transitions(to: $0)) }
        return await withTaskGroup(of: Finding.self) { group in
            for (scope, transitions) in streams {
                group.addTask {
                    for await transition in transitions {
                        let isMissing = transition.current.status == .unsatisfied
                        return .path(scope, missing: isMissing ? monitor.missing(for: scope) : nil)
                    }
                    return .path(scope, missing: nil)
                }
            }
            group.addTask {
                try? await monitor.run()
                return .monitorEnded
            }
            group.addTask {
                try? await Task.sleep(for: timeLimit)
                return .timeUp
            }
            defer { group.cancelAll() }
            var (found, left): ([Scope: String], Int) = ([:], scopes.count)
            while left > 0, case .path(let scope, let missing)? = await group.next() {
                (found[scope], left) = (missing, left - 1)
            }
            return found
        }
    }
}
