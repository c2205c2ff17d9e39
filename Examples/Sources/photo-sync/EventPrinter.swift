import Foundation
import Reachability
import ReachableJobs
import SyncEngine

/// Writes a line for each event of a photo, and for each change of a condition.
struct EventPrinter {
    private let conditions: [Condition]
    private let events: AsyncStream<JobQueueEvent>
    /// The names of the photos whose jobs have not ended.
    private let names: [DurableJobID: String]

    /// Subscribes to the events of a queue that does not run yet.
    init(_ queue: JobQueue, _ conditions: [Condition]) async throws {
        (self.conditions, events) = (conditions, queue.events)
        let jobs = try await queue.jobs(matching: JobFilter(states: [.available, .running]))
        names = Dictionary(uniqueKeysWithValues: jobs.map { ($0.id, $0.serialKey ?? "\($0.id)") })
    }

    /// Writes until every job has ended; returns the numbers of photos that were stored, and that were not.
    func run() async -> (stored: Int, failed: Int) {
        let following = Task { await follow() }
        defer { following.cancel() }
        var open = names
        var counts = (stored: 0, failed: 0)
        var events = events.makeAsyncIterator()
        while !open.isEmpty, let event = await events.next() {
            guard let job = event.job, let name = open[job] else { continue }
            say("\(name): \(words(event))")
            switch event.kind {
            case .succeeded: counts.stored += 1
            case .failed, .cancelled: counts.failed += 1
            default: continue
            }
            open[job] = nil
        }
        return counts
    }

    private func follow() async {
        await withDiscardingTaskGroup { group in
            for condition in conditions {
                group.addTask {
                    for await state in condition.updates {
                        say(state.isSatisfied ? "'\(condition.name)' is satisfied" : "waits for '\(condition.name)'")
                    }
                }
            }
        }
    }

    private func words(_ event: JobQueueEvent) -> String {
        switch event.kind {
        case .attemptStarted(let number): "attempt \(number) starts"
        case .willRetry(let error): "runs again after: \(error ?? "")"
        case .succeeded: "done"
        case .failed(let reason, let error): "gave up (\(reason)): \(error ?? "")"
        default: "\(event.kind)"
        }
    }
}

/// Writes a line at once, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
