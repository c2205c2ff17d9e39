#if Tracing
internal import Synchronization
internal import Tracing

/// A job's span, if its bus has a tracer.
///
/// Changes are recorded under the bus's lock and reported to the span outside of it.
struct JobTrace: Sendable {
    private let span: any Span
    /// The end of the last attempt.
    private var idleSince: BusTime
    private var number: Int64 = 0
    private var delay = Duration.zero
    private var trigger: RetryEvent.Trigger?

    init?(_ request: JobRequest, _ configuration: RetryBus.Configuration, at now: BusTime) {
        guard let tracer = configuration.tracer else { return nil }
        idleSince = now
        span = tracer.startSpan("retry")
        span.updateAttributes { attributes in
            attributes["retry.scope"] = "\(request.scope)"
            if let destination = request.options.destination { attributes["retry.destination"] = destination }
        }
    }

    mutating func noteStart(_ trigger: RetryEvent.Trigger, at now: BusTime) {
        number += 1
        (self.trigger, delay) = (trigger, now - idleSince)
    }

    mutating func noteFailure(at now: BusTime) { idleSince = now }

    /// Removes and returns the trigger of a new attempt.
    ///
    /// An attempt of a sequence continues with each element, but starts once.
    mutating func takeStart() -> RetryEvent.Trigger? {
        defer { trigger = nil }
        return trigger
    }

    /// Ends the span of a rejected job.
    func reject() {
        span.attributes["retry.outcome"] = "rejected"
        span.setStatus(SpanStatus(code: .error))
        span.end()
    }

    func start(_ trigger: RetryEvent.Trigger) {
        span.addEvent(
            SpanEvent(
                name: "retry.attempt",
                attributes: [
                    "retry.attempt": .int64(number), "retry.delay": .double(delay / .seconds(1)),
                    "retry.trigger": .string(trigger.rawValue),
                ]))
    }

    func fail(_ error: any Error) { span.recordError(error, attributes: ["retry.attempt": .int64(number)]) }

    /// Ends the span; `nil` is success.
    func end(_ id: JobID, _ ending: Ending?) {
        span.attributes["retry.job.id"] = "\(id)"
        switch ending {
        case nil: span.attributes["retry.outcome"] = "succeeded"
        case .cancelled: span.attributes["retry.outcome"] = "cancelled"
        case .gaveUp(let reason, _, _):
            span.attributes["retry.outcome"] = "gaveUp"
            span.attributes["retry.gave.up.reason"] = reason.rawValue
            span.setStatus(SpanStatus(code: .error, message: "gave up: \(reason.rawValue)"))
        }
        span.end()
    }

    /// Ends the span of a life whose job goes on in another one.
    func handBack() {
        span.attributes["retry.outcome"] = "failed"
        span.setStatus(SpanStatus(code: .error))
        span.end()
    }

    /// Makes the span the parent of tasks that `body` creates.
    static func propagate<Result>(_ trace: JobTrace?, _ body: () -> Result) -> Result {
        guard let trace else { return body() }
        return ServiceContext.$current.withValue(trace.span.context, operation: body)
    }
}

extension RetryBus {
    /// Records the start of an attempt in the job's span.
    func beginTrace(_ handle: JobHandle, _ attempt: Attempt) -> JobTrace? {
        guard configuration.tracer != nil else { return nil }
        let (trace, trigger) = state.withLock { state in
            (state.core.job(handle.key)?.driver.record.trace, state.core.update(handle.key) { $0.record.trace?.takeStart() } ?? nil)
        }
        if let trigger { trace?.start(trigger) }
        return trace
    }
}
#else
/// A job's span; always absent without the package's trait `Tracing`.
struct JobTrace: Sendable {
    init?(_ request: JobRequest, _ configuration: RetryBus.Configuration, at now: BusTime) { return nil }
    func noteStart(_ trigger: RetryEvent.Trigger, at now: BusTime) {}
    func noteFailure(at now: BusTime) {}
    func reject() {}
    func fail(_ error: any Error) {}
    func end(_ id: JobID, _ ending: Ending?) {}
    func handBack() {}
    static func propagate<Result>(_ trace: JobTrace?, _ body: () -> Result) -> Result { body() }
}

extension RetryBus {
    func beginTrace(_ handle: JobHandle, _ attempt: Attempt) -> JobTrace? { nil }
}
#endif
