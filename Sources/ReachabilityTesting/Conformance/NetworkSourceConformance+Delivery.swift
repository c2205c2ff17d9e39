internal import Glibc
internal import Reachability

/// Checks of the delivery of batches.
extension NetworkSourceConformance {
    /// The number of times that a delivery yields to other threads, so that violations have time to happen.
    private static let yields = 2000
    /// The most tries to find a time without events.
    private static let quietTries = 5

    /// Wakes the source from several threads during a delivery.
    func checkSerialDelivery() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            let first = probe.batches.count
            probe.react { number in
                guard number <= first + 1 else { return nil }
                source.wake()
                let threads = ThreadGroup(3) { source.wake() }
                Self.giveWay(until: threads)
                for _ in 0..<Self.yields where probe.batches.count <= number + 1 { sched_yield() }
                return nil
            }
            source.wake()
            // Another check looks for this batch; a replay does not send it.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: first + 1) }
        }
    }

    /// Wakes the source once at a time, from a different place each time.
    func checkWakeUps() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            func check(_ place: String, after count: Int) async throws -> Bool {
                if try await session.waitsForBatch(after: count) { return true }
                probe.report(.wakeUps, "no batch came within \(session.patience) of `wake()` \(place)")
                return false
            }
            for place in ["by a task", "by the same task again"] {
                let count = probe.batches.count
                source.wake()
                guard try await check(place, after: count) else { return }
            }
            var count = probe.batches.count
            guard try await session.inThreads(1, { source.wake() }) else {
                probe.report(.wakeUps, "`wake()` by another thread did not return within \(session.patience)")
                return
            }
            guard try await check("by another thread", after: count) else { return }

            let inner = probe.batches.count
            probe.react { number in
                if number == inner { source.wake() }
                return nil
            }
            source.wake()
            guard try await check("before a delivery", after: inner),
                try await check("from within `deliver`", after: inner + 1)
            else { return }

            count = probe.batches.count
            let aside = count
            probe.react { number in
                guard number == aside else { return nil }
                let threads = ThreadGroup(1) { source.wake() }
                Self.giveWay(until: threads)
                return nil
            }
            source.wake()
            guard try await check("before a delivery", after: aside) else { return }
            _ = try await check("by another thread while `deliver` was being called", after: aside + 1)
        }
    }

    /// Requests a pause, another one, and one that replaces a longer one.
    func checkPauses() async throws -> [Violation] {
        try await session { session in
            var early: Duration?
            for _ in 1...Self.quietTries {
                switch try await checkPauses(session) {
                case .ended: return
                // It is open then which batch answers which wake-up: once more.
                case .disturbed: break
                // A clock that was set may be the reason, but not twice.
                case .early(let distance) where early == nil: early = distance
                case .early(let distance):
                    session.probe.report(
                        .pauses, "an empty batch came \(distance) after `deliver` had returned \(session.candidate.pause)")
                    return
                }
                // What the wake-ups and the last pause still bring must not be taken for an answer to the next ones.
                session.probe.react { _ in nil }
                try await session.pass(session.candidate.pause * 2)
            }
        }
    }

    private enum PauseCheck {
        /// The pauses were kept, or a violation has been reported.
        case ended
        /// Events came, which may come at any time.
        case disturbed
        /// An empty batch came long before its time.
        case early(Duration)
    }

    private func checkPauses(_ session: ConformanceSession) async throws -> PauseCheck {
        let (source, probe, pause) = (session.candidate.source, session.probe, session.candidate.pause)
        let first = probe.batches.count
        probe.react { number in
            if number == first { return .seconds(3600) }
            return number < first + 4 ? pause : nil
        }
        source.wake()
        guard try await session.waitsForBatch(after: first) else { return .ended }
        source.wake()
        guard try await session.waitsForBatch(after: first + 1) else { return .ended }
        for number in first + 2...first + 4 {
            if let passTime = session.candidate.passTime { try await passTime(pause) }
            let isInTime = try await session.waitsForBatch(after: number)
            let batches = probe.batches
            guard !batches[first...].contains(where: \.hasEvents) else { return .disturbed }
            guard isInTime else {
                probe.report(.pauses, "no batch came within \(session.patience) of the \(pause) that `deliver` had returned")
                return .ended
            }
            let distance = batches[number - 1].now.duration(to: batches[number].now)
            // Another check looks for time that goes backwards.
            guard distance < .zero || distance >= pause / 2 else { return .early(distance) }
        }
        return .ended
    }

    /// Yields until threads have finished; 5 s at most, because a source may hold up `wake()` while it delivers.
    private static func giveWay(until threads: ThreadGroup) {
        let end = ContinuousClock.now + .seconds(5)
        while !threads.isFinished, ContinuousClock.now < end { sched_yield() }
    }
}

/// Checks of the end of a run.
extension NetworkSourceConformance {
    /// Cancels the run within a delivery.
    func checkCancellationWithinDelivery() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            let count = probe.batches.count
            probe.react { _ in
                session.cancel()
                return .zero
            }
            source.wake()
            // A replay cannot be woken: `finish` cancels it then.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: count) }
        }
    }

    /// Runs the source in a cancelled task.
    func checkEarlyCancellation() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        session.start(isCancelled: true)
        guard try await session.waits(until: { session.probe.phase.hasEnded }) else {
            session.probe.report(.cancellation, "`run` in a cancelled task did not end within \(patience)")
            return session.probe.violations
        }
        // The run may fail for another reason first.
        if case .ended(nil) = session.probe.phase {
            session.probe.report(.cancellation, "`run` in a cancelled task returned; it must throw")
        }
        return session.probe.violations
    }

    /// Tries to cause a batch after the end: with a pause, wake-ups and a change.
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
        // This batch is requested just before the end.
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
