internal import Reachability

/// How a run ends.
extension NetworkSourceConformance {
    /// Cancels the run while it delivers.
    func checkCancellationWithinDelivery() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            let count = probe.batches.count
            probe.react { _ in
                session.cancel()
                return .zero
            }
            source.wake()
            // A replay is not woken: it is cancelled from outside then.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: count) }
        }
    }

    /// Runs the source in a task that is cancelled already.
    func checkEarlyCancellation() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        session.start(isCancelled: true)
        guard try await session.waits(until: { session.probe.phase.hasEnded }) else {
            session.probe.report(.cancellation, "`run` in a task that was cancelled already did not end within \(patience)")
            return session.probe.violations
        }
        // It may fail for another reason before it notices.
        if case .ended(nil) = session.probe.phase {
            session.probe.report(.cancellation, "`run` in a task that was cancelled already just returned; it has to throw")
        }
        return session.probe.violations
    }

    /// Tries to get a batch after the end: by what is still due, by waking, by changes.
    func checkSilenceAfterEnd() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        let (source, probe, pause) = (session.candidate.source, session.probe, session.candidate.pause)
        probe.react { _ in pause }
        session.start()
        guard try await session.begins() else {
            session.cancel()
            return probe.violations
        }
        // One is asked for just before the end.
        source.wake()
        try await session.finish()
        guard probe.phase.hasEnded else { return probe.violations }
        source.wake()
        _ = try await session.inThreads(2) { source.wake() }
        if let change = session.candidate.changes.first { try await change() }
        try await session.pass(pause * 2)
        return probe.violations
    }
}
