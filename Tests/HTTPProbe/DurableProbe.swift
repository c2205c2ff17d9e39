import Foundation
import Reachability
import ReachableHTTP
import ReachableJobs
import ReachableRetry

/// A durable download for a test that kills the process: the next one has only its files and the job's identity.
///
/// Prints the number of bytes on the disk after each write, and "done".
enum DurableProbe {
    static func run(_ words: [String]) async {
        guard words.count == 3, let url = URL(string: words[0]), let id = DurableJobID(words[2]) else { return }
        do {
            let queue = JobQueue(MemoryStore(), bus: RetryBus(ReachabilityMonitor()))
            var options = DurableHTTPOptions()
            options.onWrite = { HTTPProbe.write("\($0)") }
            queue.registerDownloads(policy: .default.connectivity(.ignore), options: options)
            let download = try DurableDownload(url, to: URL(fileURLWithPath: words[1]))
            var job = NewJob(queue: "default", kind: DurableDownload.jobName, payload: try JSONEncoder().encode(download))
            (job.id, job.idempotencyKey) = (id, words[2])
            _ = try await queue.store.push([job], limit: nil)
            let events = queue.events
            let running = Task { await queue.run() }
            loop: for await event in events {
                switch event.kind {
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
        } catch {
            HTTPProbe.write("failed: \(error)")
        }
    }
}
