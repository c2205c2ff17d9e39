internal import Glibc
internal import Reachability
internal import Synchronization

extension NetworkSourceConformance {
    /// Runs a new candidate, calls the body after the first batch, ends the run, and returns the violations.
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

/// The run of one candidate, observed by a probe.
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

    /// Runs the source in a new task.
    ///
    /// - Parameter isCancelled: `true` to cancel the task before it runs the source.
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

    /// Waits for the first batch; returns `false` and reports a violation if it does not come.
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

    /// Waits until a condition holds or the patience is exhausted; returns `true` if it holds.
    func waits(until holds: @escaping @Sendable () -> Bool) async throws -> Bool {
        if holds() { return true }
        let changes = probe.changes()
        let (sleep, patience) = (conformance.sleep, conformance.patience)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in changes where holds() { return } }
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

    /// Cancels the run and checks its ending.
    func finish() async throws {
        defer { probe.close() }
        let hadEnded = probe.phase.hasEnded
        cancel()
        guard try await waits(until: { [probe] in probe.phase.hasEnded }) else {
            probe.report(.cancellation, "`run` continued for \(patience) after its task was cancelled")
            return
        }
        guard !hadEnded, case .ended(let error) = probe.phase, !(error is CancellationError) else { return }
        let ending = error.map { "threw \($0)" } ?? "returned"
        probe.report(.cancellation, "`run` \(ending) when its task was cancelled; it must throw CancellationError")
    }

    /// Runs a body in several threads; returns `true` once all have finished.
    func inThreads(_ count: Int, _ body: @escaping @Sendable () -> Void) async throws -> Bool {
        let threads = ThreadGroup(count, body) { [probe] in probe.signalChange() }
        return try await waits { threads.isFinished }
    }
}

/// Receives a source's batches and reports violations of the rules of delivery.
final class ConformanceProbe: Sendable {
    typealias Requirement = NetworkSourceConformance.Requirement
    typealias Violation = NetworkSourceConformance.Violation
    /// Runs within a delivery with the number of the batch; returns the pause to request.
    typealias Reaction = @Sendable (_ number: Int) -> Duration?

    struct Batch: Sendable {
        var now: BootInstant
        var hasEvents: Bool
        /// The source's answers within the delivery.
        var answers: ConformanceAnswers?
    }

    enum Phase: Sendable {
        case running
        case ended((any Error)?)

        var hasEnded: Bool { if case .ended = self { true } else { false } }
    }

    private struct State {
        var batches: [Batch] = []
        var violations: [Violation] = []
        /// The threads within `deliver`.
        var deliverers: [pthread_t] = []
        var phase = Phase.running
        var reaction: Reaction = { _ in nil }
        var listeners: [AsyncStream<Void>.Continuation] = []

        mutating func report(_ requirement: Requirement, _ message: String) {
            violations.append(.init(requirement, message))
        }

        /// Records a delivery that begins; returns the reaction to run within it.
        mutating func enter(_ batch: NetworkEventBatch, _ thread: pthread_t) -> (Reaction, Int) {
            if deliverers.contains(where: { pthread_equal($0, thread) != 0 }) {
                report(.serialDelivery, "`deliver` was called from within `deliver`")
            } else if !deliverers.isEmpty {
                report(.serialDelivery, "`deliver` was called by a thread while another one had not returned from it")
            }
            if phase.hasEnded { report(.silenceAfterEnd, "`deliver` was called after `run` had ended") }
            if let last = batches.last, batch.now < last.now {
                report(.time, "a batch of \(batch.now) came after one of \(last.now)")
            }
            deliverers.append(thread)
            batches.append(.init(now: batch.now, hasEvents: !batch.events.isEmpty))
            return (reaction, batches.count - 1)
        }

        /// Records the end of a delivery.
        mutating func leave(_ thread: pthread_t) {
            if let place = deliverers.firstIndex(where: { pthread_equal($0, thread) != 0 }) { deliverers.remove(at: place) }
        }
    }

    private let state = Mutex(State())

    var batches: [Batch] { state.withLock(\.batches) }
    var violations: [Violation] { state.withLock(\.violations) }
    var phase: Phase { state.withLock(\.phase) }

    /// Replaces the reaction within later deliveries.
    func react(_ reaction: @escaping Reaction) { state.withLock { $0.reaction = reaction } }

    /// Replaces the reaction by one that records the candidate's answers.
    func recordAnswers(of candidate: NetworkSourceConformance.Candidate) {
        react { [self] number in
            let answers = ConformanceAnswers(candidate)
            state.withLock { $0.batches[number].answers = answers }
            return nil
        }
    }

    /// Removes the reaction and finishes all streams.
    ///
    /// The reaction refers to the probe and the candidate: without this they would retain each other.
    func close() {
        let listeners = state.withLock { state in
            defer { state.listeners = [] }
            state.reaction = { _ in nil }
            return state.listeners
        }
        for listener in listeners { listener.finish() }
    }

    /// The `deliver` closure for the source.
    func deliver(_ batch: NetworkEventBatch) -> Duration? {
        let thread = pthread_self()
        let (reaction, number) = state.withLock { $0.enter(batch, thread) }
        let pause = reaction(number)
        state.withLock { $0.leave(thread) }
        signalChange()
        return pause
    }

    /// Records the end of the run.
    func noteEnd(_ error: (any Error)?) {
        state.withLock { state in
            if !state.deliverers.isEmpty {
                state.report(.silenceAfterEnd, "`run` ended while `deliver` was still being called")
            }
            state.phase = .ended(error)
        }
        signalChange()
    }

    func report(_ requirement: Requirement, _ message: String) { state.withLock { $0.report(requirement, message) } }

    /// Returns a stream with an element now and after each change.
    func changes() -> AsyncStream<Void> {
        let (changes, listener) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.listeners.append(listener) }
        listener.yield()
        return changes
    }

    /// Signals a change to all streams.
    func signalChange() {
        for listener in state.withLock(\.listeners) { listener.yield() }
    }
}

/// A source's answers to all queries of its candidate.
struct ConformanceAnswers: Hashable, Sendable {
    private let interfaces: Result<[NetworkInterface], ReachabilityError>
    private let routes: [Result<RouteVerdict, ReachabilityError>]

    init(_ candidate: NetworkSourceConformance.Candidate) {
        let source = candidate.source
        interfaces = Result { () throws(ReachabilityError) in try source.interfaces() }
        routes = source.routes(to: candidate.queries)
    }

    /// The first failure; an answer that a recording lacks is not one.
    var failure: ReachabilityError? {
        func failure<Value>(_ result: Result<Value, ReachabilityError>) -> ReachabilityError? {
            if case .failure(let failure) = result, failure.code != .notRecorded { failure } else { nil }
        }
        return failure(interfaces) ?? routes.lazy.compactMap { failure($0) }.first
    }
}
