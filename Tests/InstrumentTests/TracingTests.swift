#if Tracing
import InMemoryTracing
import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing
import Tracing

@Suite(.timeLimit(.minutes(10))) struct TracingTests {
    let tracer = InMemoryTracer()

    private func bench(online: Bool = true) throws -> Bench { try Bench(online: online) { $0.tracer = tracer } }

    @Test func aJobIsASpanWithAnEventForEachAttempt() async throws {
        try await bench(online: false).run { bench in
            let job = try await bench.submitWaiting("job", failing: Trouble.other, Trouble.other)
            bench.clock.advance(by: .seconds(5))
            try bench.network.plug("eth0")
            try await bench.bus.parked("job")
            bench.clock.advance(by: .seconds(60))
            try await bench.bus.parked("job")
            bench.clock.advance(by: .seconds(20))
            bench.bus.retryNow()
            try await job.value
            let span = try #require(tracer.finishedSpans.first)
            #expect(tracer.finishedSpans.count == 1 && tracer.activeSpans.isEmpty && span.operationName == "retry")
            #expect(span.attributes.get("retry.job.id") == "job" && span.attributes.get("retry.scope") == "internet")
            #expect(span.attributes.get("retry.destination") == "server" && span.attributes.get("retry.outcome") == "succeeded")
            #expect(span.status == nil && span.events.allSatisfy { $0.name == "retry.attempt" })
            let attempts: [(Int64, Double, SpanAttribute)] = [(1, 5, "reconnect"), (2, 60, "timer"), (3, 20, "retryNow")]
            #expect(span.events.count == attempts.count)
            for (event, (number, delay, trigger)) in zip(span.events, attempts) {
                #expect(event.attributes.get("retry.attempt") == .int64(number))
                #expect(event.attributes.get("retry.delay") == .double(delay))
                #expect(event.attributes.get("retry.trigger") == trigger)
            }
            #expect(span.errors.map { $0.error as? Trouble } == [.other, .other])
            #expect(span.errors.map { $0.attributes.get("retry.attempt") } == [.int64(1), .int64(2)])
        }
    }

    @Test func aSpanThatGaveUpHasAnErrorStatus() async throws {
        try await bench().run { bench in
            await #expect(throws: Trouble.self) { try await bench.bus.retry(.steady) { _ in throw Trouble.hopeless } }
            let span = try #require(tracer.finishedSpans.first)
            #expect(span.status == SpanStatus(code: .error, message: "gave up: permanent"))
            #expect(span.attributes.get("retry.outcome") == "gaveUp" && span.attributes.get("retry.gave.up.reason") == "permanent")
        }
    }

    @Test func aCancelledJobsSpanEnds() async throws {
        try await bench(online: false).run { bench in
            let job = try await bench.submitWaiting("job")
            job.cancel()
            _ = await job.result
            let span = try #require(tracer.finishedSpans.first)
            #expect(span.status == nil && span.attributes.get("retry.outcome") == "cancelled" && span.events.isEmpty)
        }
    }

    @Test func spansOfCallerJobAndOperationAreParentAndChild() async throws {
        try await bench().run { bench in
            try await tracer.withSpan("caller") { _ in
                try await bench.bus.retry { _ in
                    // The span has to outlive a suspension.
                    await Task.yield()
                    tracer.startSpan("request").end()
                }
            }
            let spans = Dictionary(uniqueKeysWithValues: tracer.finishedSpans.map { ($0.operationName, $0) })
            let (caller, job, request) = (spans["caller"], spans["retry"], spans["request"])
            #expect(job?.parentSpanID == caller?.spanID && request?.parentSpanID == job?.spanID)
            #expect(request?.traceID == caller?.traceID && caller != nil)
        }
    }

    @Test func coldJobsAreSpans() async throws {
        try await bench().run { bench in
            let job = bench.bus.job(.steady, options: JobOptions(id: "cold")) { attempt in
                if attempt.number == 1 { throw Trouble.other }
            }
            try job.submit()
            try await bench.bus.parked("cold")
            bench.bus.cancel("cold")
            try await bench.bus.job(RetryPolicy(.immediate)) { attempt in
                if attempt.number == 1 { throw Trouble.other }
            }.value
            #expect(tracer.finishedSpans.map { $0.attributes.get("retry.outcome") } == ["cancelled", "succeeded"])
            #expect(tracer.finishedSpans.map(\.events.count) == [1, 2])
        }
    }

    @Test func iterationOfASequenceIsOneAttempt() async throws {
        try await bench().run { bench in
            let numbers = AsyncStream<Int> { continuation in
                for number in 1...3 { continuation.yield(number) }
                continuation.finish()
            }
            var sum = 0
            for try await number in numbers.retry(.steady, on: bench.bus) { sum += number }
            let span = try #require(tracer.finishedSpans.first)
            #expect(sum == 6 && span.events.count == 1 && span.attributes.get("retry.outcome") == "succeeded")
        }
    }

    @Test func refusedJobIsRejected() async throws {
        try await bench().run { bench in
            await bench.bus.shutdown(drain: nil)
            await #expect(throws: RetryError.shutDown) { try await bench.bus.retry { _ in } }
            let span = try #require(tracer.finishedSpans.first)
            #expect(span.attributes.get("retry.outcome") == "rejected" && span.status?.code == .error && span.events.isEmpty)
        }
    }

    @Test func aBusWithoutATracerMakesNoSpans() async throws {
        try await Bench().run { bench in
            try await bench.bus.retry { _ in }
            #expect(tracer.finishedSpans.isEmpty)
        }
    }
}
#endif
