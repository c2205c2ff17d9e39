import Reachability

/// What `record` does: it keeps a monitor watching and writes what passes between it and its source.
struct RecordSession {
    /// Why it ended.
    enum End: Hashable {
        /// The time was up, or a signal came.
        case done
        case writingFailed(ReachabilityError)
        case monitorEnded(ReachabilityError?)
    }

    /// How it ended, and how many entries were dropped.
    struct Outcome: Hashable {
        var end: End
        var lost: UInt64
    }

    let source: any NetworkSource
    let scopes: [Scope]
    var timeLimit: Duration?
    var clock: any Clock<Duration> = ContinuousClock()
    let sink: @Sendable ([UInt8]) throws(ReachabilityError) -> Void

    /// Records until the time limit or an interruption, until writing fails, or until the monitor ends.
    ///
    /// When it returns, all is written.
    func run(until interruption: AsyncStream<Int32>) async -> Outcome {
        let (failures, failed) = AsyncStream.makeStream(of: ReachabilityError.self)
        let recorder = Self.recorder(source, scopes) { [sink] bytes throws(ReachabilityError) in
            do throws(ReachabilityError) {
                try sink(bytes)
            } catch {
                failed.yield(error)
                throw error
            }
        }
        let session = MonitorSession(
            monitor: ReachabilityMonitor(recorder), scopes: scopes, isRaw: true, timeLimit: timeLimit, clock: clock)
        let end = await withTaskGroup(of: End?.self) { group in
            group.addTask {
                let end = await session.run { _, _ in nil }
                return if case .monitorEnded(let error) = end { .monitorEnded(error) } else { .done }
            }
            group.addTask {
                for await error in failures { return .writingFailed(error) }
                return nil
            }
            group.addTask {
                for await _ in interruption { return .done }
                return nil
            }
            defer { group.cancelAll() }
            for await end in group { if let end { return end } }
            return .done
        }
        // What was left over at the end may have failed, too.
        if let error = recorder.progress.failure as? ReachabilityError {
            return Outcome(end: .writingFailed(error), lost: recorder.progress.entriesLost)
        }
        return Outcome(end: end, lost: recorder.progress.entriesLost)
    }

    private static func recorder(
        _ source: some NetworkSource, _ scopes: [Scope], _ sink: @escaping @Sendable ([UInt8]) throws(ReachabilityError) -> Void
    ) -> NetworkRecorder {
        NetworkRecorder(source, scopes: scopes, to: sink)
    }
}
