internal import Glibc
internal import Reachability

/// How batches come.
extension NetworkSourceConformance {
    /// How often a delivery gives way to other threads, so that what must not happen meanwhile has time to.
    private static let yields = 2000

    /// Wakes the source from everywhere while a delivery is going on.
    func checkCrowd() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            let first = probe.batches.count
            probe.react { number in
                guard number <= first + 1 else { return nil }
                source.wake()
                let crowd = ConformanceCrowd(3) { source.wake() }
                Self.giveWay { crowd.isGone && probe.batches.count > number + 1 }
                return nil
            }
            source.wake()
            // Whether it comes is checked elsewhere; a replay does without.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: first + 1) }
        }
    }

    /// Wakes the source once at a time, each time from elsewhere.
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
                let crowd = ConformanceCrowd(1) { source.wake() }
                Self.giveWay { crowd.isGone }
                return nil
            }
            source.wake()
            guard try await check("before a delivery", after: aside) else { return }
            _ = try await check("by another thread while `deliver` was being called", after: aside + 1)
        }
    }

    /// Asks for pauses: one, another one, and one that replaces a longer one.
    func checkPauses() async throws -> [Violation] {
        try await session { session in
            let (source, probe, pause) = (session.candidate.source, session.probe, session.candidate.pause)
            let first = probe.batches.count
            probe.react { number in
                if number == first { return .seconds(3600) }
                return number < first + 4 ? pause : nil
            }
            source.wake()
            guard try await session.waitsForBatch(after: first) else { return }
            source.wake()
            guard try await session.waitsForBatch(after: first + 1) else { return }
            for number in first + 2...first + 4 {
                if let passTime = session.candidate.passTime { try await passTime(pause) }
                guard try await session.waitsForBatch(after: number) else {
                    probe.report(.pauses, "no batch came within \(session.patience) of the \(pause) that `deliver` had returned")
                    return
                }
                let batches = probe.batches
                let distance = batches[number - 1].now.duration(to: batches[number].now)
                // What was announced may come at any time; that time goes back is another matter.
                guard batches[number].hasEvents || distance < .zero || distance >= pause / 2 else {
                    probe.report(.pauses, "an empty batch came \(distance) after `deliver` had returned \(pause)")
                    return
                }
            }
        }
    }

    /// Lets other threads run until something happened, for a limited time.
    static func giveWay(until hasHappened: () -> Bool) {
        for _ in 0..<yields where !hasHappened() { sched_yield() }
    }
}
