import Foundation
import Reachability
import ReachableHTTP
import ReachableJobs
import ReachableRetry

/// A durable download for a test that kills the process: the next one has only its files and the job's identity.
///
/// Prints the number of bytes on the disk after each write, "started" and "cut" of each attempt, and "done".
enum DurableProbe {
    static func run(_ words: [String]) async {
        guard words.count > 2, let url = words.first.flatMap({ URL(string: $0) }), let id = words.last.flatMap(DurableJobID.init)
        else { return HTTPProbe.write("failed: URL FILE JOB are missing, or are none") }
        let monitor = ReachabilityMonitor()
        let watching = Task { try await monitor.run() }
        do {
            let queue = JobQueue(MemoryStore(), bus: RetryBus(monitor))
            var options = DurableHTTPOptions()
            options.onWrite = { HTTPProbe.write("\($0)") }
            queue.registerDownloads(options: options)
            let download = try DurableDownload(url, to: URL(fileURLWithPath: words[words.count - 2]))
            var job = NewJob(queue: "default", kind: DurableDownload.jobName, payload: try JSONEncoder().encode(download))
            (job.id, job.idempotencyKey) = (id, "\(id)")
            _ = try await queue.store.push([job], limit: nil)
            let events = queue.events
            let running = Task { await queue.run() }
            loop: for await event in events {
                switch event.kind {
                case .attemptStarted: HTTPProbe.write("started")
                case .willRetry: HTTPProbe.write("cut")
                case .succeeded:
                    HTTPProbe.write("done")
                    break loop
                case .failed(let reason, let error):
                    HTTPProbe.write("failed: \(reason), \(error ?? "")")
                    break loop
                default: break
                }
            }
            running.cancel()
            await running.value
            watching.cancel()
        } catch {
            HTTPProbe.write("failed: \(error)")
        }
    }
}
