internal import Reachability
internal import Synchronization

/// One candidate's run under the eyes of a probe.
final class ConformanceSession: Sendable {
    let candidate: NetworkSourceConformance.Candidate
    let probe = ConformanceProbe()
    private let conformance: NetworkSourceConformance
    private let run = Mutex<Task<Void, Never>?>(nil)

    init(_ conformance: NetworkSourceConformance) async throws {
        candidate = try await conformance.makeCandidate()
        self.conformance = conformance
    }

    var patience: Duration { conformance.patience }

    var answers: ConformanceAnswers { ConformanceAnswers(candidate) }

    /// Runs the source in a task of its own.
    ///
    /// - Parameter isCancelled: whether the task is cancelled before the source is run.
    func start(isCancelled: Bool = false) {
        (candidate.source as? any FilteringSource)?.watch(Set(candidate.queries.map(\.destination)))
        let task = Task { [source = candidate.source, probe] in
            if isCancelled { await untilCancelled() }
            do {
                try await source.run { probe.deliver($0) }
                probe.noteEnd(nil)
            } catch {
                probe.noteEnd(error)
            }
        }
        run.withLock { $0 = task }
        if isCancelled { task.cancel() }
    }

    /// Waits for the first batch; tells whether it came.
    func begins() async throws -> Bool {
        _ = try await waits { [probe] in !probe.batches.isEmpty || probe.phase.hasEnded }
        guard probe.batches.isEmpty else { return true }
        if case .ended(let error) = probe.phase {
            probe.report(.beginning, "`run` ended before the first batch\(error.map { ": \($0)" } ?? "")")
        } else {
            probe.report(.beginning, "no batch came within \(patience) of the call of `run`")
        }
        return false
    }

    func cancel() { run.withLock(\.self)?.cancel() }

    /// Waits until something holds, as long as patience lasts; tells whether it does.
    func waits(until holds: @escaping @Sendable () -> Bool) async throws -> Bool {
        if holds() { return true }
        let beats = probe.beats()
        let (sleep, patience) = (conformance.sleep, conformance.patience)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in beats where holds() { return } }
            group.addTask { try await sleep(patience) }
            try await group.next()
            group.cancelAll()
            try Task.checkCancellation()
            return holds()
        }
    }

    /// Waits for a batch beyond the first `count`.
    func waitsForBatch(after count: Int) async throws -> Bool {
        try await waits { [probe] in probe.batches.count > count }
    }

    /// Lets the source's time pass.
    func pass(_ duration: Duration) async throws {
        if let passTime = candidate.passTime {
            try await passTime(duration)
        } else {
            try await ContinuousClock().sleep(for: duration)
        }
    }

    /// Cancels the run and looks how it ends.
    func finish() async throws {
        defer { probe.close() }
        let hadEnded = probe.phase.hasEnded
        cancel()
        guard try await waits(until: { [probe] in probe.phase.hasEnded }) else {
            probe.report(.cancellation, "`run` went on for \(patience) after its task was cancelled")
            return
        }
        guard !hadEnded, case .ended(let error) = probe.phase, !(error is CancellationError) else { return }
        let ending = error.map { "threw \($0)" } ?? "just returned"
        probe.report(.cancellation, "`run` \(ending) when its task was cancelled; it has to throw CancellationError")
    }

    /// Does something in threads of their own, and waits for their ends; tells whether they came.
    func inThreads(_ count: Int, _ body: @escaping @Sendable () -> Void) async throws -> Bool {
        let crowd = ConformanceCrowd(count, body) { [probe] in probe.beat() }
        return try await waits { crowd.isGone }
    }
}

extension NetworkSourceConformance {
    /// Makes a candidate, has the body play with its run once the first batch came, and ends it; returns what was found.
    func session(_ body: (ConformanceSession) async throws -> Void) async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        session.start()
        do {
            if try await session.begins() { try await body(session) }
        } catch {
            session.cancel()
            throw error
        }
        try await session.finish()
        return session.probe.violations
    }
}
