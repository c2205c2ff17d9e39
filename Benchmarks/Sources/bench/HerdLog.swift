import ReachableRetry
import Synchronization

/// The failure of an attempt.
struct HerdFailure: Error {
    /// The bus's classification; in virtual time there are no errors of the system.
    var failure: AttemptFailure?
    /// The number of the system's error, on a real cable.
    var errno: Int32?
    /// When the attempt started.
    var start: Int64

    /// Tells the bus what they mean.
    static func classified(_ policy: RetryPolicy) -> RetryPolicy {
        policy.classify { ($0 as? HerdFailure)?.failure }.errno { ($0 as? HerdFailure)?.errno }
    }
}

/// The attempts of a herd's jobs, in nanoseconds of the run's clock.
final class HerdLog: Sendable {
    struct Entries {
        var starts: [Int64] = []
        /// The attempts that started while the network was away.
        var offline = 0
        /// When the attempts started that failed and were charged.
        var charged: [Int64] = []
        /// When jobs got what they wanted.
        var successes: [Int64] = []
        /// Jobs that have no result yet.
        var open = 0
    }

    private let guarded = Mutex(Entries())

    var entries: Entries { guarded.withLock { $0 } }

    var isOver: Bool { guarded.withLock { $0.open == 0 } }

    func noteSubmission() { guarded.withLock { $0.open += 1 } }

    func noteStart(at now: Int64, isOffline: Bool) {
        guarded.withLock { entries in
            entries.starts.append(now)
            if isOffline { entries.offline += 1 }
        }
    }

    /// A job has ended; `nil` if without success.
    func noteEnd(_ success: Int64?) {
        guarded.withLock { entries in
            entries.open -= 1
            if let success { entries.successes.append(success) }
        }
    }

    func note(_ event: RetryEvent) {
        guard let failure = event.failure, failure.isCharged, let error = failure.error as? HerdFailure else { return }
        guarded.withLock { $0.charged.append(error.start) }
    }
}

/// The measures of a run.
struct HerdFigures: Equatable {
    /// Seconds from the edge to the first attempt, the middle one, and the last.
    var first = 0.0
    var median = 0.0
    var last = 0.0
    /// The most attempts that started within 100 ms, and within a second.
    var peak100 = 0
    var peak1000 = 0
    var perJob: Double
    var offline: Int
    /// Attempts before the way led anywhere, and how many of them were charged.
    var early: Int
    var earlyCharged: Int
    var ended: Int
    var jobs: Int
    /// Seconds from the edge to the last success.
    var makespan: Double
    /// Through what the server needs for all jobs, and the lag.
    var overIdeal: Double

    /// - Parameters:
    ///   - edge: when the network was back.
    ///   - open: when the way led to the server.
    ///   - ideal: what the server needs for all jobs, in seconds.
    init(_ entries: HerdLog.Entries, jobs: Int, edge: Int64, open: Int64, ideal: Double) {
        func seconds(_ time: Int64) -> Double { Double(time - edge) / 1e9 }
        let starts = entries.starts.sorted()
        if let first = starts.first, let last = starts.last {
            (self.first, self.last) = (seconds(first), seconds(last))
            median = seconds(starts[starts.count / 2])
            peak100 = Self.peak(starts, 100_000_000)
            peak1000 = Self.peak(starts, 1_000_000_000)
        }
        perJob = Double(starts.count) / Double(jobs)
        offline = entries.offline
        // Without a lag what came before the driver saw the edge was not early, but quick.
        early = open > edge ? starts.count { $0 < open } : 0
        earlyCharged = open > edge ? entries.charged.count { $0 < open } : 0
        (ended, self.jobs) = (entries.successes.count, jobs)
        makespan = entries.successes.max().map(seconds) ?? 0
        overIdeal = makespan / (ideal + seconds(open))
    }

    var isComplete: Bool { ended == jobs }

    /// The most times in a span of that width.
    private static func peak(_ sorted: [Int64], _ width: Int64) -> Int {
        var (from, most) = (0, 0)
        for (index, time) in sorted.enumerated() {
            while sorted[from] <= time - width { from += 1 }
            most = max(most, index - from + 1)
        }
        return most
    }
}
