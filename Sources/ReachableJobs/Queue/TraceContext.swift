internal import ReachableRetry

#if Tracing
internal import Instrumentation
internal import Tracing

/// The trace context that travels with a stored job.
enum TraceContext {
    private struct Carrier: Injector, Extractor {
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
    }

    /// Returns the context of the calling task.
    static func current(_ bus: RetryBus) -> [String: String] {
        guard let tracer = bus.configuration.tracer, let context = ServiceContext.current else { return [:] }
        var carrier: [String: String] = [:]
        tracer.inject(context, into: &carrier, using: Carrier())
        return carrier
    }

    /// Runs a body as a part of a stored context, so that its spans are children of the caller that pushed the job.
    static func propagate<Value>(
        _ carrier: [String: String], _ bus: RetryBus, _ body: () async -> Value
    ) async -> Value {
        guard let tracer = bus.configuration.tracer, !carrier.isEmpty else { return await body() }
        var context = ServiceContext.topLevel
        tracer.extract(carrier, into: &context, using: Carrier())
        return await ServiceContext.$current.withValue(context, operation: body)
    }
}
#else
/// The trace context that travels with a stored job; empty without the package's trait `Tracing`.
enum TraceContext {
    static func current(_ bus: RetryBus) -> [String: String] { [:] }

    static func propagate<Value>(
        _ carrier: [String: String], _ bus: RetryBus, _ body: () async -> Value
    ) async -> Value { await body() }
}
#endif
