import CommandKit
import FoundationEssentials
import Glibc
import Reachability
import ReachableJobs

/// The queue of this user as the service shows it: read, and changed only for a fleet's trigger.
actor QueueView {
    private let path: String
    private let monitor: ReachabilityMonitor
    private var opened: (store: QueueStore, queue: JobQueue)?
    /// The conditions of the jobs' scopes, which keep these watched, so that the missing path is known.
    private var watched: [Scope: Condition] = [:]

    /// - Parameter path: The file of the store; it may be created later.
    init(path: String, _ monitor: ReachabilityMonitor) { (self.path, self.monitor) = (path, monitor) }

    /// Returns the queue as it is now; `nil` if there is no store.
    func snapshot() async -> QueueSnapshot? {
        var snapshot = QueueSnapshot(store: path)
        do {
            guard let queue = try open()?.queue else { return nil }
            for count in try await queue.counts { snapshot.counts[count.state, default: 0] += count.count }
            let jobs = try await queue.jobs(
                matching: JobFilter(states: [.available, .running, .failed], limit: QueueSnapshot.most))
            var pending = try await queue.pending(jobs.map(\.id))
            watch(pending)
            NetworkReasons.put(into: &pending) { [monitor] in monitor.missing(for: $0) }
            snapshot.jobs = pending
            for job in jobs {
                snapshot.programs[job.id] = job.command?.program
                snapshot.exitCodes[job.id] = job.lastError.flatMap(ChildFailure.code(of:))
            }
        } catch {
            // It may have been removed or repaired.
            opened = nil
            snapshot.problem = CommandFailure(error).message
        }
        return snapshot
    }

    /// Ends the backoff of waiting jobs, so that their workers try them at once; returns a sentence about it.
    func retryNow() async -> String {
        do {
            switch try await open()?.queue.retryNow() {
            case nil: return "there is no queue"
            case 0?: return "no job of the queue backed off"
            case 1?: return "1 job of the queue is tried at once"
            case let count?: return "\(count) jobs of the queue are tried at once"
            }
        } catch {
            opened = nil
            return CommandFailure(error).message
        }
    }

    /// Returns the hints of the store; an empty stream if there is no store.
    func changes() -> AsyncStream<Void>? { try? open()?.store.jobs.changes() }

    private func open() throws -> (store: QueueStore, queue: JobQueue)? {
        guard QueueStore.isDatabase(path) || access(path, F_OK) == 0 else {
            opened = nil
            return nil
        }
        if let opened { return opened }
        let store = try QueueStore(path: path, creating: false)
        opened = (store, store.queue())
        return opened
    }

    private func watch(_ jobs: [PendingDurableJob]) {
        let scopes = Set(jobs.compactMap(NetworkReasons.undecidedScope(of:)))
        watched = watched.filter { scopes.contains($0.key) }
        for scope in scopes where watched[scope] == nil { watched[scope] = monitor.condition(for: scope) }
    }
}

extension QueuedCommand {
    /// The name of the program, without its directory.
    fileprivate var program: String? { words.first.map { String($0.text.split(separator: "/").last ?? "") } }
}
