import Foundation
import Logging
import Reachability
import ReachableJobs
import ServiceLifecycle

/// Turns the files in the outbox into durable jobs, and looks for new ones at intervals.
struct OutboxWatcher: Service {
    let outbox: Outbox
    let queue: JobQueue
    let host: String
    let deadline: Duration?
    /// The interval between looks; `nil` to look once and end after the uploads.
    let interval: Duration?
    let logger: Logger

    /// Runs until it is shut down or done.
    func run() async throws {
        let events = queue.events
        let logging = Task { await logFailures(events) }
        defer { logging.cancel() }
        var accepted: Set<Parcel> = []
        repeat {
            // A file that was given up is tried again after a restart, or when another file takes its name.
            for parcel in try outbox.parcels() where accepted.insert(parcel).inserted { try await accept(parcel) }
        } while await pause()
        if interval == nil { try await cancelWhenGracefulShutdown { try await waitForUploads() } }
    }

    /// Stores the job of a file; a job of an earlier run stays, with its delay and its key.
    private func accept(_ parcel: Parcel) async throws {
        let upload = Upload(parcel: parcel, host: host, timeLimit: deadline)
        let receipt = try await queue.push(upload, unique: .keep("\(parcel.inode) \(parcel.name)"))
        logger.debug("accepted", metadata: ["file": "\(parcel.name)", "job": "\(receipt.outcome)"])
    }

    /// Waits until every job has ended.
    private func waitForUploads() async throws {
        // Before the first look, so that no end is missed.
        var events = queue.events.makeAsyncIterator()
        let unfinished = JobFilter(states: [.available, .running], limit: 1)
        while try await !queue.jobs(matching: unfinished).isEmpty, await events.next() != nil {}
    }

    private func logFailures(_ events: AsyncStream<JobQueueEvent>) async {
        for await event in events {
            guard case .failed(let reason, let error) = event.kind else { continue }
            logger.error("a file stays in the outbox", metadata: ["reason": "\(reason)", "error": "\(error ?? "")"])
        }
    }

    /// Waits for the next look; returns `false` if there is none.
    private func pause() async -> Bool {
        guard let interval else { return false }
        do {
            try await cancelWhenGracefulShutdown { try await Task.sleep(for: interval) }
            return true
        } catch {
            return false
        }
    }
}
