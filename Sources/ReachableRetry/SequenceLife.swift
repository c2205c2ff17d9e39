/// The life of a job whose attempts are iterations of a sequence, for one who asks for elements.
///
/// Used by one task at a time; who drops it has no job any more.
final class SequenceLife<Base: AsyncSequence & Sendable> {
    private enum Stage {
        case unborn
        /// It waits until it may iterate.
        case waiting(Ticket)
        case iterating(Ticket, Attempt, Iteration)
        case over
    }

    /// An iteration of the sequence, which each element changes.
    private final class Iteration {
        var iterator: Base.AsyncIterator
        /// Whether it has given an element.
        var hasBegun = false

        init(_ iterator: Base.AsyncIterator) { self.iterator = iterator }
    }

    private let sequence: RetryingSequence<Base>
    private var stage = Stage.unborn

    init(_ sequence: RetryingSequence<Base>) { self.sequence = sequence }

    deinit {
        switch stage {
        case .waiting(let ticket), .iterating(let ticket, _, _): sequence.bus.abandon(ticket)
        case .unborn, .over: break
        }
    }

    /// The next element; `nil` when the sequence has ended.
    func next(isolation: isolated (any Actor)?) async throws -> Base.Element? {
        while true {
            switch stage {
            case .over: return nil
            case .unborn:
                try Task.checkCancellation()
                var order = sequence.order
                order.isPulled = true
                stage = .waiting(try sequence.bus.submit(order))
            case .waiting(let ticket):
                try await wait(ticket, isolation: isolation)
            case .iterating(let ticket, let attempt, let iteration):
                let result = await element(ticket, attempt, iteration, isolation: isolation)
                if let element = settle(result, ticket, attempt, iteration) { return element }
            }
        }
    }

    /// Suspends until the sequence may be iterated.
    private func wait(_ ticket: Ticket, isolation: isolated (any Actor)?) async throws {
        let bus = sequence.bus
        let step = await withTaskCancellationHandler(
            operation: { await bus.nextStep(ticket) }, onCancel: { bus.cancel(ticket) }, isolation: isolation)
        switch step {
        case .waiting, .left: break
        case .start(let attempt): stage = .iterating(ticket, attempt, Iteration(sequence.base.makeAsyncIterator()))
        case .end(let end):
            stage = .over
            throw bus.conclude(end, ticket, sequence.order.policy).error
        }
    }

    private func element(
        _ ticket: Ticket, _ attempt: Attempt, _ iteration: Iteration, isolation: isolated (any Actor)?
    ) async -> Result<Base.Element?, any Error> {
        let bus = sequence.bus
        return await withTaskCancellationHandler(
            operation: {
                await bus.perform(attempt, ticket, isolation: isolation) { _ in
                    try await iteration.iterator.next(isolation: isolation)
                }
            }, onCancel: { bus.cancel(ticket) }, isolation: isolation)
    }

    /// Takes in what the sequence said; `nil` if it is over, or failed.
    private func settle(
        _ result: Result<Base.Element?, any Error>, _ ticket: Ticket, _ attempt: Attempt, _ iteration: Iteration
    ) -> Base.Element? {
        let bus = sequence.bus
        switch result {
        case .success(let element?):
            if !iteration.hasBegun || sequence.resetsAfterElement {
                let isFirst = !iteration.hasBegun
                iteration.hasBegun = true
                bus.noteProgress(
                    ticket, of: attempt.number, forgives: sequence.resetsAfterElement, leavesLimits: isFirst)
            }
            return element
        // A stream that the bus has cancelled returns `nil`, which is not the end of its source.
        case .success(nil) where bus.isInterrupted(ticket): fail(ticket, CancellationError())
        case .success(nil):
            bus.change { guarded, now in guarded.core.succeed(ticket.key, at: now) }
            stage = .over
        case .failure(let error): fail(ticket, error)
        }
        return nil
    }

    private func fail(_ ticket: Ticket, _ error: any Error) {
        // Before it is tried again: what the iteration held is free.
        stage = .waiting(ticket)
        sequence.bus.failed(ticket, sequence.order.policy, error)
    }
}
