#if Tracing
internal import Synchronization
internal import Tracing

/// A job's span, if its bus has a tracer.
///
/// What is noted is noted under the bus's lock; the span is only told outside of it.
struct JobTrace: Sendable {
    private let span: any Span
    /// Since when there has been no attempt.
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

    /// The attempt that is about to run, to be told once: one of a sequence goes on with each element.
    mutating func takeStart() -> RetryEvent.Trigger? {
        defer { trigger = nil }
        return trigger
    }

    /// The bus does not take the job.
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

    /// The end; `nil` is success.
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

    /// Has a task that is made meanwhile belong to the span.
    static func propagate<Result>(_ trace: JobTrace?, _ body: () -> Result) -> Result {
        guard let trace else { return body() }
        return ServiceContext.$current.withValue(trace.span.context, operation: body)
    }
}

extension RetryBus {
    /// Tells the job's span that an attempt starts.
    func beginTrace(_ handle: JobHandle, _ attempt: Attempt) -> JobTrace? {
        guard configuration.tracer != nil else { return nil }
        let (trace, trigger) = state.withLock { state in
            (state.table[handle.key]?.record.trace, state.table[handle.key]?.record.trace?.takeStart())
        }
        if let trigger { trace?.start(trigger) }
        return trace
    }
}
#else
/// A job's span: without the package's trait `Tracing` there is none.
struct JobTrace: Sendable {
    init?(_ request: JobRequest, _ configuration: RetryBus.Configuration, at now: BusTime) { return nil }
    func noteStart(_ trigger: RetryEvent.Trigger, at now: BusTime) {}
    func noteFailure(at now: BusTime) {}
    func reject() {}
    func fail(_ error: any Error) {}
    func end(_ id: JobID, _ ending: Ending?) {}
    static func propagate<Result>(_ trace: JobTrace?, _ body: () -> Result) -> Result { body() }
}

extension RetryBus {
    func beginTrace(_ handle: JobHandle, _ attempt: Attempt) -> JobTrace? { nil }
}
#endif
