internal import ReachableRetry

#if Tracing
internal import Instrumentation
internal import Tracing

private struct Carrier: Injector, Extractor {
    func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
    func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
}
#endif

/// The trace context that travels with a stored job; empty without the package's trait `Tracing`.
enum TraceContext {
    static func current(_ bus: RetryBus) -> [String: String] {
        #if Tracing
        if let tracer = bus.configuration.tracer, let context = ServiceContext.current {
            var carrier: [String: String] = [:]
            tracer.inject(context, into: &carrier, using: Carrier())
            return carrier
        }
        #endif
        return [:]
    }

    /// Runs a body as a part of a stored context, so that its spans are children of the caller that pushed the job.
    static func propagate<Value>(_ carrier: [String: String], _ bus: RetryBus, _ body: () async -> Value) async -> Value {
        #if Tracing
        if let tracer = bus.configuration.tracer, !carrier.isEmpty {
            var context = ServiceContext.topLevel
            tracer.extract(carrier, into: &context, using: Carrier())
            return await ServiceContext.$current.withValue(context, operation: body)
        }
        #endif
        return await body()
    }
}
