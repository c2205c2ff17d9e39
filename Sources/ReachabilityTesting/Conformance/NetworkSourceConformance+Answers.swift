internal import Reachability
internal import Synchronization

/// What a source answers.
extension NetworkSourceConformance {
    /// How many threads ask, and how often each.
    private static let crowd = (threads: 4, rounds: 8)

    /// Asks from many threads, before, during and after the run, and within `deliver`.
    func checkQuestions() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        let (source, probe, candidate) = (session.candidate.source, session.probe, session.candidate)
        guard try await session.asksFromThreads("before it was run") else { return probe.violations }
        probe.react { number in
            probe.note(ConformanceAnswers(candidate), at: number)
            return nil
        }
        session.start()
        if try await session.begins(), try await session.asksFromThreads("while it ran") {
            let count = probe.batches.count
            source.wake()
            // Whether this leads to a batch is checked elsewhere; a replay does without.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: count) }
            for batch in probe.batches { session.expectAnswer(batch.answers, "within `deliver`") }
        }
        try await session.finish()
        _ = try await session.asksFromThreads("after its end")
        return probe.violations
    }

    /// Makes each change and looks for it.
    func checkAnnouncements() async throws -> [Violation] {
        try await session { session in
            let (probe, candidate) = (session.probe, session.candidate)
            probe.react { number in
                probe.note(ConformanceAnswers(candidate), at: number)
                return nil
            }
            for (position, change) in candidate.changes.enumerated() {
                let before = session.answers
                let count = probe.batches.count
                try await change()
                let isSeen: @Sendable () -> Bool = {
                    probe.batches[count...].contains { $0.hasEvents && $0.answers.map { $0 != before } ?? false }
                }
                guard try await session.waits(until: isSeen) else {
                    let isTold = probe.batches[count...].contains(where: \.hasEvents)
                    let finding =
                        isTold
                        ? "the answers were the old ones in every batch with events that followed"
                        : "no batch with events came within \(session.patience)"
                    probe.report(.announcements, "change \(position): \(finding)")
                    return
                }
                guard session.answers != before else {
                    probe.report(
                        .announcements, "change \(position): the answers were the old ones again after `deliver` had returned")
                    return
                }
            }
        }
    }
}

extension ConformanceSession {
    /// Asks from many threads at once and compares their answers; tells whether all of them came.
    fileprivate func asksFromThreads(_ occasion: String) async throws -> Bool {
        // An announcement meanwhile excuses different answers; in a network of its own it does not come again and again.
        for _ in 0..<3 {
            let told = ConformanceTally()
            let count = probe.batches.count
            let hasReturned = try await inThreads(4) { [candidate] in
                for _ in 0..<8 { told.add(ConformanceAnswers(candidate)) }
            }
            guard hasReturned else {
                probe.report(
                    .questions, "`interfaces()` or `routes(to:)` \(occasion), by several threads, did not return within \(patience)"
                )
                return false
            }
            for answers in told.kinds { expectAnswer(answers, occasion) }
            guard told.kinds.count > 1 else { return true }
            guard probe.batches[count...].contains(where: \.hasEvents) else {
                probe.report(.stability, "different answers to the same questions \(occasion), though nothing was announced")
                return true
            }
        }
        return true
    }

    fileprivate func expectAnswer(_ answers: ConformanceAnswers?, _ occasion: String) {
        guard let failure = answers?.failure else { return }
        probe.report(.questions, "`interfaces()` or `routes(to:)` \(occasion) threw: \(failure)")
    }
}

/// The different answers that were given.
private final class ConformanceTally: Sendable {
    private let given = Mutex<Set<ConformanceAnswers>>([])

    var kinds: Set<ConformanceAnswers> { given.withLock(\.self) }

    func add(_ answers: ConformanceAnswers) { given.withLock { _ = $0.insert(answers) } }
}
