/// An event in a life of a cold job: see ``Job/events`` and ``Job/onEvent(_:)``.
///
/// A life ends with exactly one of ``succeeded(_:)``, ``gaveUp(_:_:)`` and ``cancelled``.
public enum JobEvent<Value: Sendable>: Sendable {
    /// The job begins to wait for the network or other conditions: all unmet conditions, the network first.
    ///
    /// Reported each time, and again when the first unmet condition changes. A wait that ends before its report is left out.
    case waiting(for: [RetryEvent.Unmet])
    /// An attempt with this number starts; for a reader of ``Job/events``, when it asks for the next event.
    case attemptStarted(Int)
    /// An attempt succeeded with this value.
    case attemptSucceeded(Value)
    /// An attempt failed.
    case attemptFailed(RetryEvent.Failure)
    /// The job waits for this delay before the next attempt, unless a reconnect comes first.
    ///
    /// Not reported if the job waits for the network instead, or starts again at once.
    case backingOff(Duration)
    /// The job succeeded: the end of this life.
    case succeeded(Value)
    /// The job gave up: the error for its caller, and the report unless the bus rejected the job. The end of the last life.
    case gaveUp(any Error, GiveUp?)
    /// The job was cancelled by its caller, by its name, by the bus's shutdown or by dropping its reader. The end of the last life.
    case cancelled
}

/// The events of a cold job: each iteration is an independent life.
///
/// The job continues when its reader asks for the next event: after ``JobEvent/attemptStarted(_:)`` the attempt starts when the
/// reader asks for the event that follows. Until then the job takes no place from others. If the network is lost meanwhile, the
/// job waits for it, and the attempt is reported again. Dropping an iteration, or cancelling its task, cancels its job. Delays and
/// deadlines run on between events. The sequence ends after ``JobEvent/succeeded(_:)`` (unless the job repeats),
/// ``JobEvent/gaveUp(_:_:)`` or ``JobEvent/cancelled``.
///
/// The operation runs in the reader's isolation, unless it has one of its own.
public struct JobEvents<Value: Sendable>: AsyncSequence, Sendable {
    let definition: JobDefinition<Value>

    /// Begins an iteration; the job is submitted when the reader asks for the first event.
    public func makeAsyncIterator() -> Iterator { Iterator(iteration: JobIteration(definition, reader: .ofEvents)) }

    /// One iteration, for one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        let iteration: JobIteration<Value>

        /// Returns the next event; `nil` at the end.
        public mutating func next() async -> JobEvent<Value>? { await iteration.next(isolation: #isolation) }

        /// Returns the next event; `nil` at the end.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(Never) -> JobEvent<Value>? {
            await iteration.next(isolation: actor)
        }
    }
}

/// The events of a cold job's lives, one after the other.
///
/// Used by one task at a time. Dropping it cancels the job.
final class JobIteration<Value: Sendable> {
    private enum Stage {
        /// No life has begun yet, or the last one has ended.
        case idle(notBefore: BusTime)
        case following(JobDriver)
        /// An attempt may run, and its start was reported.
        case starting(JobDriver, Attempt)
        /// The value was reported as an attempt's, and not yet as the job's.
        case succeeded(Value)
        case over
    }

    private let definition: JobDefinition<Value>
    private let reader: JobDriver.Reader
    /// True if the iteration ends when there is nothing to do; the bus then makes another one.
    private let mayLeave: Bool
    private var stage: Stage
    private var operation: JobDefinition<Value>.Operation
    /// True while the delay after a failure has not been reported.
    private var owesDelay = false
    /// True if a shutdown waits until the end was reported.
    private var owesEnd = false

    init(_ definition: JobDefinition<Value>, reader: JobDriver.Reader = .none) {
        self.definition = definition
        self.reader = reader
        mayLeave = false
        stage = .idle(notBefore: .past)
        operation = definition.makeOperation()
    }

    /// Follows a job that was submitted.
    init(_ definition: JobDefinition<Value>, _ handle: JobHandle, mayLeave: Bool) {
        self.definition = definition
        reader = .none
        self.mayLeave = mayLeave
        operation = definition.makeOperation()
        stage = .following(
            JobDriver(bus: definition.bus, handle: handle, policy: definition.request.policy, hasEventHandlers: true))
    }

    deinit {
        switch stage {
        case .following(let driver), .starting(let driver, _):
            driver.abandon()
            definition.callHandlers(with: .cancelled)
        case .succeeded(let value): definition.callHandlers(with: .succeeded(value))
        case .idle, .over: break
        }
    }

    /// Returns the next event; `nil` after the last one, or if the calling task was cancelled before a life began.
    func next(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        guard let event = await nextEvent(isolation: isolation) else {
            stage = .over
            return nil
        }
        definition.callHandlers(with: event)
        switch event {
        case .succeeded, .gaveUp, .cancelled:
            if owesEnd { definition.bus.noteEndHandled() }
            owesEnd = false
        case .waiting, .attemptStarted, .attemptSucceeded, .attemptFailed, .backingOff: break
        }
        return event
    }

    private func nextEvent(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch stage {
        case .over: return nil
        case .succeeded(let value):
            stage = definition.interval.map { .idle(notBefore: definition.bus.clock.now() + $0) } ?? .over
            if definition.interval != nil { operation = definition.makeOperation() }
            return .succeeded(value)
        case .idle(let notBefore):
            if Task.isCancelled { return nil }
            do {
                let driver = try begin(notBefore)
                return await follow(driver, isolation: isolation)
            } catch {
                stage = .over
                return .gaveUp(error, nil)
            }
        case .following(let driver):
            let delay = driver.resumeForReader()
            if owesDelay, let delay {
                owesDelay = false
                driver.pauseForReader()
                return .backingOff(delay)
            }
            owesDelay = false
            return await follow(driver, isolation: isolation)
        case .starting(let driver, let attempt):
            stage = .following(driver)
            return await run(attempt, driver, isolation: isolation)
        }
    }

    private func begin(_ notBefore: BusTime) throws(RetryError) -> JobDriver {
        var request = definition.request
        (request.notBefore, request.wantsWaits, request.reader) = (notBefore, true, reader)
        let handle = try definition.bus.submit(request)
        let driver = JobDriver(
            bus: definition.bus, handle: handle, policy: definition.request.policy, reader: reader, hasEventHandlers: true)
        (stage, owesDelay) = (.following(driver), false)
        return driver
    }

    private func follow(_ driver: JobDriver, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch await driver.next(leavingJobTo: mayLeave ? definition : nil) {
        case .left:
            stage = .over
            return nil
        case .waiting(let unmet): return .waiting(for: unmet)
        case .announced(let number): return .attemptStarted(number)
        // The reader has heard of it, and asked for the next event.
        case .start(let attempt) where reader == .ofEvents: return await run(attempt, driver, isolation: isolation)
        case .start(let attempt):
            stage = .starting(driver, attempt)
            return .attemptStarted(attempt.number)
        case .ended(let end):
            (stage, owesEnd) = (.over, !end.hasReader)
            let (error, report) = driver.conclude(end)
            return report.map { .gaveUp(error, $0) } ?? .cancelled
        }
    }

    private func run(_ attempt: Attempt, _ driver: JobDriver, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch await driver.run(attempt, isolation: isolation, operation) {
        case .succeeded(let value):
            (stage, owesEnd) = (.succeeded(value), reader == .none)
            return .attemptSucceeded(value)
        case .failed(let failure?):
            owesDelay = true
            return .attemptFailed(failure)
        case .failed(nil):
            owesDelay = true
            // Cancelled: only the end is left to report.
            return await follow(driver, isolation: isolation)
        }
    }
}
