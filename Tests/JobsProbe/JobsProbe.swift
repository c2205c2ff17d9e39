#if SQLite
import Glibc
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry

/// A worker on a SQLite store, for tests that kill it: `jobs-probe STORE EFFECTS`.
///
/// The effect of a job is a line with its name, appended to a file. The worker prints a line for each effect.
@main struct JobsProbe {
    private struct Effect: JobParameters {
        static let jobName = "effect"
        var name: String
    }

    private struct Failure: Error {
        var errno: Int32
    }

    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else {
            print("usage: jobs-probe STORE EFFECTS")
            exit(64)
        }
        let effects = open(arguments[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard effects >= 0 else { throw Failure(errno: errno) }
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let running = Task { try await monitor.run() }
        let queue = JobQueue(try SQLiteStore(path: arguments[1]), bus: RetryBus(monitor))
        queue.registerJob(parameters: Effect.self, policy: .default.giveUpAfter(maxAttempts: nil)) { effect, _ in
            // One write(2) with O_APPEND is one line, whenever the process dies.
            let line = Array((effect.name + "\n").utf8)
            guard write(effects, line, line.count) == line.count else { throw Failure(errno: errno) }
            _ = write(STDOUT_FILENO, line, line.count)
        }
        await queue.run()
        running.cancel()
    }
}
#else
/// Without the package's trait `SQLite` there is no store to work on.
@main struct JobsProbe {
    static func main() { print("jobs-probe needs the trait SQLite") }
}
#endif
