internal import Glibc
internal import Reachability
internal import Synchronization

/// Receives a source's batches and notes what is wrong with the way they come.
final class ConformanceProbe: Sendable {
    typealias Requirement = NetworkSourceConformance.Requirement
    typealias Violation = NetworkSourceConformance.Violation
    /// What is done within a delivery, by the number of the batch; returns the pause to ask for.
    typealias Reaction = @Sendable (_ number: Int) -> Duration?

    /// What is remembered of a batch.
    struct Batch: Sendable {
        var now: BootInstant
        var hasEvents: Bool
        /// What the source answered within the delivery.
        var answers: ConformanceAnswers?
    }

    /// How the run went.
    enum Phase: Sendable {
        case running
        case ended((any Error)?)

        var hasEnded: Bool { if case .ended = self { true } else { false } }
    }

    fileprivate struct State {
        var batches: [Batch] = []
        var violations: [Violation] = []
        var deliverers: [pthread_t] = []
        var phase = Phase.running
        var reaction: Reaction = { _ in nil }
        var listeners: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())

    var batches: [Batch] { state.withLock(\.batches) }
    var violations: [Violation] { state.withLock(\.violations) }
    var phase: Phase { state.withLock(\.phase) }

    /// Has something else be done within the deliveries from now on.
    func react(_ reaction: @escaping Reaction) { state.withLock { $0.reaction = reaction } }

    /// Does nothing within deliveries any more, and lets go of those who wait.
    ///
    /// What is done refers to the probe and to the candidate: nobody would ever let go of them.
    func close() {
        let listeners = state.withLock { state in
            defer { state.listeners = [] }
            state.reaction = { _ in nil }
            return state.listeners
        }
        for listener in listeners { listener.finish() }
    }

    /// The `deliver` that the source is given.
    func deliver(_ batch: NetworkEventBatch) -> Duration? {
        let thread = pthread_self()
        let (reaction, number) = state.withLock { $0.enter(batch, thread) }
        let pause = reaction(number)
        let listeners = state.withLock { state in
            if let place = state.deliverers.firstIndex(where: { pthread_equal($0, thread) != 0 }) {
                state.deliverers.remove(at: place)
            }
            return state.listeners
        }
        for listener in listeners { listener.yield() }
        return pause
    }

    /// Keeps what was answered within the delivery of a batch.
    func note(_ answers: ConformanceAnswers, at number: Int) { state.withLock { $0.batches[number].answers = answers } }

    /// Notes that the run is over.
    func noteEnd(_ error: (any Error)?) {
        let listeners = state.withLock { state in
            if !state.deliverers.isEmpty {
                state.report(.silenceAfterEnd, "`run` ended while `deliver` was still being called")
            }
            state.phase = .ended(error)
            return state.listeners
        }
        for listener in listeners { listener.yield() }
    }

    func report(_ requirement: Requirement, _ message: String) { state.withLock { $0.report(requirement, message) } }

    /// Beats whenever something may have changed, once at the beginning.
    func beats() -> AsyncStream<Void> {
        let (beats, beat) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.listeners.append(beat) }
        beat.yield()
        return beats
    }

    /// Says that something may have changed.
    func beat() {
        for listener in state.withLock(\.listeners) { listener.yield() }
    }
}

extension ConformanceProbe.State {
    mutating func report(_ requirement: ConformanceProbe.Requirement, _ message: String) {
        violations.append(.init(requirement, message))
    }

    /// Takes note of a delivery that begins, and returns what is to be done within it.
    mutating func enter(_ batch: NetworkEventBatch, _ thread: pthread_t) -> (ConformanceProbe.Reaction, Int) {
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
}
