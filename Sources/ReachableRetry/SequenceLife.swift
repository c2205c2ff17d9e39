/// The life of a job whose attempts are iterations of a sequence, for one who asks for elements.
///
/// Used by one task at a time; who drops it has no job any more.
final class SequenceLife<Base: AsyncSequence & Sendable> {
    private enum Stage {
        case unborn
        /// It waits until it may iterate.
        case waiting(Ticket)
        case iterating(Ticket, Attempt, Source)
        case over
    }

    /// An iteration of the sequence, which each element changes.
    private final class Source {
        var iterator: Base.AsyncIterator

        init(_ iterator: Base.AsyncIterator) { self.iterator = iterator }
    }

    private let sequence: RetryingSequence<Base>
    private var stage = Stage.unborn
    private var lastError: (any Error)?

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
                stage = .waiting(try sequence.bus.submit(sequence.order))
            case .waiting(let ticket):
                try await wait(ticket, isolation: isolation)
            case .iterating(let ticket, let attempt, let source):
                let result = await element(ticket, attempt, source, isolation: isolation)
                if let element = settle(result, ticket) { return element }
            }
        }
    }

    /// Suspends until the sequence may be iterated.
    private func wait(_ ticket: Ticket, isolation: isolated (any Actor)?) async throws {
        let bus = sequence.bus
        let step = await withTaskCancellationHandler(
            operation: { await bus.nextStep(ticket) },
            onCancel: { bus.change { guarded, now in guarded.core.cancel(ticket.key, at: now) } }, isolation: isolation)
        switch step {
        case .waiting: break
        case .start(let start):
            let attempt = Attempt(
                number: start.number, previousFailure: lastError, deadline: start.limit, epoch: start.epoch)
            stage = .iterating(ticket, attempt, Source(sequence.base.makeAsyncIterator()))
        case .end(.cancelled):
            stage = .over
            throw CancellationError()
        case .end(.gaveUp(let reason, let tally, let isCut)):
            stage = .over
            throw bus.conclude(GiveUp(ticket.id, reason, tally, lastError), sequence.order.policy, isCut: isCut)
        }
    }

    private func element(
        _ ticket: Ticket, _ attempt: Attempt, _ source: Source, isolation: isolated (any Actor)?
    ) async -> Result<Base.Element?, any Error> {
        let bus = sequence.bus
        return await withTaskCancellationHandler(
            operation: {
                await bus.perform(attempt, ticket, isolation: isolation) { _ in
                    try await source.iterator.next(isolation: isolation)
                }
            }, onCancel: { bus.change { guarded, now in guarded.core.cancel(ticket.key, at: now) } }, isolation: isolation)
    }

    /// Takes in what the sequence said; `nil` if it is over, or failed.
    private func settle(_ result: Result<Base.Element?, any Error>, _ ticket: Ticket) -> Base.Element? {
        switch result {
        case .success(let element?):
            if sequence.resetsAfterElement {
                sequence.bus.change { guarded, now in guarded.core.noteProgress(ticket.key, at: now) }
            }
            return element
        case .success(nil):
            sequence.bus.change { guarded, now in guarded.core.succeed(ticket.key, at: now) }
            stage = .over
        case .failure(let error):
            // Before it is tried again: what the iteration held is free.
            stage = .waiting(ticket)
            lastError = sequence.bus.failed(ticket, sequence.order.policy, error, after: lastError).lastError
        }
        return nil
    }
}
