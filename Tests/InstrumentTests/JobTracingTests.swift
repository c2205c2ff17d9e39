#if Tracing
import InMemoryTracing
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Testing
import Tracing

/// The spans of durable jobs, which run in another process than the one that pushed them.
@Suite(.timeLimit(.minutes(10))) struct JobTracingTests {
    private typealias Send = JobBench.Send

    private struct Twice: JobParameters {
        static let jobName = "twice"
    }

    @Test func attemptIsAChildOfItsPusher() async throws {
        // Two processes have two tracers.
        let names = InMemoryTracer.IDGenerator(nextTraceID: { "pusher's trace" }, nextSpanID: { "pusher's span" })
        let (pushing, working) = (InMemoryTracer(idGenerator: names), InMemoryTracer())
        let configure: @Sendable (inout RetryBus.Configuration) -> Void = { $0.tracer = working }
        try await JobBench.run(configure: configure) { bench in
            var configuration = RetryBus.Configuration()
            configuration.tracer = pushing
            var mail = JobQueue.Configuration()
            mail.name = "mail"
            let monitor = ReachabilityMonitor(SimulatedNetwork.online())
            let client = JobQueue(bench.store, bus: RetryBus(monitor, configuration: configuration), configuration: mail)
            try await pushing.withSpan("request") { _ in _ = try await client.push(Send("a")) }
            let stored = try #require(await client.jobs().first)
            #expect(!stored.traceContext.isEmpty)
            try await bench.working { await bench.world.settle() }
            let request = try #require(pushing.finishedSpans.first)
            let attempt = try #require(working.finishedSpans.first)
            #expect(request.operationName == "request" && attempt.operationName == "retry")
            #expect(attempt.traceID == request.traceID && attempt.parentSpanID == request.spanID)
            #expect(attempt.attributes.get("retry.job.id") == "\(stored.id)")
            #expect(working.activeSpans.isEmpty && working.finishedSpans.count == 1)
        }
    }

    @Test func eachAttemptIsASpanOfTheSameTrace() async throws {
        let tracer = InMemoryTracer()
        let configure: @Sendable (inout RetryBus.Configuration) -> Void = { $0.tracer = tracer }
        try await JobBench.run(configure: configure) { bench in
            bench.queue.registerJob(parameters: Twice.self, policy: .steady) { _, attempt in
                tracer.startSpan("call").end()
                if attempt.number == 1 { throw Trouble.other }
            }
            try await tracer.withSpan("request") { _ in _ = try await bench.queue.push(Twice()) }
            try await bench.working { await bench.world.clock.advance(by: .seconds(60)) }
            let request = try #require(tracer.finishedSpans.first { $0.operationName == "request" })
            let attempts = tracer.finishedSpans.filter { $0.operationName == "retry" }
            #expect(attempts.map { $0.attributes.get("retry.outcome") } == ["failed", "succeeded"])
            #expect(attempts.allSatisfy { $0.parentSpanID == request.spanID && $0.traceID == request.traceID })
            let calls = tracer.finishedSpans.filter { $0.operationName == "call" }
            #expect(calls.map(\.parentSpanID) == attempts.map(\.spanID))
        }
    }

    @Test func jobPushedWithoutASpanBeginsATrace() async throws {
        let tracer = InMemoryTracer()
        let configure: @Sendable (inout RetryBus.Configuration) -> Void = { $0.tracer = tracer }
        try await JobBench.run(configure: configure) { bench in
            try await bench.queue.push(Send("a"))
            #expect(try await bench.queue.jobs().first?.traceContext == [:])
            try await bench.working { await bench.world.settle() }
            #expect(tracer.finishedSpans.count == 1 && tracer.finishedSpans.first?.parentSpanID == nil)
        }
    }
}
#endif
