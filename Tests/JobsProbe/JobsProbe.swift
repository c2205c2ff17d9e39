#if SQLite || PostgreSQL
import Glibc
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry

/// A worker for tests that stop and kill it: `jobs-probe STORE EFFECTS [hold] [block] [ahead=SECONDS]`.
///
/// The store is a path of SQLite, or a connection string of PostgreSQL.
///
/// The effect of a job is a line with its name, appended to a file. The worker prints a line for each effect, and `refused` for
/// each result that came too late. With `hold`, an attempt prints that it begins and waits for a byte of standard input. With
/// `block`, it waits on a thread of Swift's pool, as a handler does that waits for a process. With `ahead`, the clock of its leases
/// in SQLite is ahead of that of other processes.
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
        guard arguments.count >= 3 else {
            print("usage: jobs-probe STORE EFFECTS [hold] [block] [ahead=SECONDS]")
            exit(64)
        }
        let options = arguments.dropFirst(3)
        let holds = options.contains("hold")
        let blocks = options.contains("block")
        let ahead = options.compactMap { $0.hasPrefix("ahead=") ? Int64($0.dropFirst(6)) : nil }.first ?? 0
        let effects = open(arguments[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard effects >= 0 else { throw Failure(errno: errno) }
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let running = Task { try await monitor.run() }
        let queue = JobQueue(try store(arguments[1], ahead: ahead), bus: RetryBus(monitor, clock: ContinuousClock()))
        queue.registerJob(parameters: Effect.self, policy: .default.giveUpAfter(maxAttempts: nil)) { effect, _ in
            if holds || blocks { try append("begins \(effect.name)", to: STDOUT_FILENO) }
            if holds { await byte() } else if blocks { readByte() }
            try append(effect.name, to: effects)
            try append(effect.name, to: STDOUT_FILENO)
        }
        let events = queue.events
        let listening = Task {
            for await event in events { if case .refused = event.kind { try append("refused", to: STDOUT_FILENO) } }
        }
        await queue.run()
        listening.cancel()
        running.cancel()
    }

    private static func store(_ place: String, ahead: Int64) throws -> any JobStore {
        #if SQLite
        if place.hasPrefix("/") {
            var machine = SQLiteMachine.kernel
            machine.monotonic = { SQLiteMachine.kernel.monotonic() + ahead * 1_000_000_000 }
            return try SQLiteStore(path: place, machine: machine)
        }
        #endif
        #if PostgreSQL
        return PostgreSQLStore(place)
        #else
        throw Failure(errno: EINVAL)
        #endif
    }

    /// Appends a line: one write(2) with O_APPEND, whenever the process dies.
    private static func append(_ text: String, to descriptor: Int32) throws {
        let line = Array((text + "\n").utf8)
        guard write(descriptor, line, line.count) == line.count else { throw Failure(errno: errno) }
    }

    /// Waits for a byte of standard input, on a thread of its own; not ended by cancellation.
    private static func byte() async {
        await withCheckedContinuation { continuation in
            let error = SystemThread.start {
                readByte()
                continuation.resume()
            }
            if error != 0 { continuation.resume() }
        }
    }

    private static func readByte() {
        var byte: UInt8 = 0
        _ = read(STDIN_FILENO, &byte, 1)
    }
}
#else
/// Without the package's traits `SQLite` and `PostgreSQL` there is no store to work on.
@main struct JobsProbe {
    static func main() { print("jobs-probe needs the trait SQLite or PostgreSQL") }
}
#endif
