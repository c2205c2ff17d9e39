import CoreMetrics
import Foundation
import MetricsTestKit
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import TestSupport
import Testing

/// The metrics of durable jobs.
@Suite(.timeLimit(.minutes(10))) struct JobMetricsTests {
    private typealias Send = JobBench.Send

    @Test func pushesAndEndsAreCounted() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                try await bench.queue.push([Send("a"), Send("b"), Send("fail"), Send("late", delay: .seconds(99))])
                let kept = Send("kept", delay: .seconds(99), timeLimit: .seconds(5))
                for _ in 1...3 { try await bench.queue.push(kept, unique: .keep("kept")) }
                #expect(try bench.count("jobs.pushed") == 5, "a job that is kept adds none")
                let last = try #require(await bench.queue.jobs().first { $0.notBefore != nil && $0.deadline == nil })
                try await bench.queue.cancel(last.id)
                await bench.world.clock.advance(by: .seconds(5))
                func finished(_ state: String) throws -> Int64 {
                    try bench.count("jobs.finished", ("state", state), ("kind", "send"))
                }
                #expect(try finished("succeeded") == 2)
                #expect(try finished("failed") == 2, "one gave up, and one's deadline has passed")
                #expect(try finished("cancelled") == 1)
                #expect(try bench.count("jobs.refused") == 0)
            }
        }
    }

    @Test func cancelledAttemptsAreCounted() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                let id = try await bench.queue.push(Send("sleep")).id
                await bench.world.settle()
                #expect(try await bench.queue.cancel(id) == .requested)
                await bench.world.settle()
                #expect(try bench.count("jobs.finished", ("state", "cancelled"), ("kind", "send")) == 1)
            }
        }
    }

    /// The store decides: the worker has not heard of the request when it gives the job back.
    @Test func cancellationsOfReturnedJobsAreCounted() async throws {
        try await JobBench.run { bench in
            bench.store.silence()
            let id = try await bench.queue.push(Send("sleep")).id
            try await bench.working {
                let outcome = try await bench.queue.cancel(id)
                #expect(outcome == .requested)
            }
            #expect(try bench.count("jobs.finished", ("state", "cancelled"), ("kind", "send")) == 1)
        }
    }

    /// The number of labels is bounded whatever is in the store.
    @Test func unregisteredKindsShareALabel() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                var unknown = NewJob(queue: "mail", kind: "strange", payload: Data())
                unknown.timeLimit = .seconds(5)
                _ = try await bench.store.push([unknown], limit: nil)
                await bench.world.clock.advance(by: .seconds(5))
                #expect(try bench.count("jobs.finished", ("state", "failed"), ("kind", "other")) == 1)
                #expect(!bench.metrics.counters.contains { $0.dimensions.contains { $0.1 == "strange" } })
            }
        }
    }

    @Test func gaugesFollowTheHeartbeat() async throws {
        try await JobBench.run(online: false) { bench in
            try await bench.working {
                let (waiting, oldest) = (try bench.gauge("jobs.waiting"), try bench.gauge("jobs.oldest.seconds"))
                #expect(waiting.values == [0] && oldest.values == [0])
                await bench.world.clock.advance(by: .seconds(5))
                try await bench.queue.push([Send("a"), Send("b"), Send("c")])
                await bench.world.clock.advance(by: .seconds(4))
                #expect(waiting.values == [0], "no reading without a heartbeat")
                await bench.world.clock.advance(by: .seconds(1))
                #expect(waiting.values == [0, 3] && oldest.values == [0, 5])
                await bench.world.clock.advance(by: .seconds(30))
                #expect(waiting.values == [0, 3, 3, 3, 3] && oldest.values == [0, 5, 15, 25, 35])
                #expect(bench.store.countReadings == 5)
                await bench.world.clock.advance(by: .seconds(1))
                _ = try await bench.queue.counts
                #expect(oldest.lastValue == 36, "a reading sets the gauges")
                try bench.world.network.plug("eth0")
                await bench.world.clock.advance(by: .seconds(9))
                #expect(waiting.lastValue == 0 && oldest.lastValue == 0)
            }
        }
    }

    @Test func countsAreNotReadWithoutMetrics() async throws {
        let configure: @Sendable (inout RetryBus.Configuration) -> Void = { $0.metrics = nil }
        try await JobBench.run(configure: configure) { bench in
            try await bench.working { await bench.world.clock.advance(by: .seconds(60)) }
            #expect(bench.store.countReadings == 0)
        }
    }

    @Test func lateResultsAreCounted() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                try await bench.queue.push(Send("sleep"))
                await bench.world.settle()
                bench.store.store.crash(WorkerID(rawValue: 1))
                await bench.world.clock.advance(by: .seconds(10))
                #expect(try bench.count("jobs.refused") >= 1)
                #expect(bench.messages.contains("warning a late result was refused: the job's claim had ended"))
            }
        }
    }

    /// Every metric with its label, from the start on; the guide lists the same.
    @Test func labelsAreKnownBeforehandAndListedInTheGuide() async throws {
        try await JobBench.run { bench in
            let all =
                bench.metrics.counters.map { ($0.label, $0.dimensions) } + bench.metrics.meters.map { ($0.label, $0.dimensions) }
            let names = all.map { name, labels in name + labels.map { "{\($0.0)=\($0.1)}" }.joined() }.filter {
                $0.hasPrefix("jobs.")
            }
            let ends = ["succeeded", "failed", "cancelled"].flatMap { state in
                ["send", "other"].map { "jobs.finished{state=\(state)}{kind=\($0)}" }
            }
            #expect(
                Set(names)
                    == Set(ends + ["jobs.pushed", "jobs.refused", "jobs.waiting{queue=mail}", "jobs.oldest.seconds{queue=mail}"]))
            let guide = try JobGuide.text()
            for name in ["jobs.finished", "jobs.pushed", "jobs.refused", "jobs.waiting", "jobs.oldest.seconds"] {
                #expect(guide.contains("`\(name)`"), "\(name)")
            }
        }
    }
}

/// The guide of the instruments of durable jobs.
enum JobGuide {
    static func text() throws -> String { try Documents.text("Sources/ReachableJobs/ReachableJobs.docc/WatchingAQueue.md") }
}
