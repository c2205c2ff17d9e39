import Foundation
import InMemoryLogging
import Logging
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Testing

/// The log of durable jobs.
@Suite(.timeLimit(.minutes(10))) struct JobLogTests {
    private typealias Send = JobBench.Send

    @Test func workerIsLoggedAtBothEnds() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                try await bench.queue.push(Send("a"))
                await bench.world.clock.advance(by: .seconds(60))
            }
            #expect(bench.messages == ["info worker registered", "info worker ended"])
            #expect(bench.entries.map { $0.metadata["jobs.worker"] } == ["1", "1"])
        }
    }

    @Test func aKindThatIsRegisteredTooLateIsLogged() async throws {
        struct Late: JobParameters { static let jobName = "late" }
        try await JobBench.run { bench in
            try await bench.working {
                bench.queue.registerJob(parameters: Late.self) { _, _ in }
                let id = try await bench.queue.push(Late()).id
                await bench.world.clock.advance(by: .seconds(60))
                #expect(bench.entries.contains { "\($0.message)".contains("after run()") && $0.metadata["jobs.kind"] == "late" })
                #expect(try await bench.queue.jobs().first { $0.id == id }?.state == .available)
            }
        }
    }

    @Test func jobThatGaveUpIsLogged() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                let failed = try await bench.queue.push(Send("fail")).id
                let late = try await bench.queue.push(Send("late", delay: .seconds(99), timeLimit: .seconds(5))).id
                await bench.world.clock.advance(by: .seconds(5))
                let entries = bench.entries.filter { $0.message == "job gave up" }
                #expect(entries.map(\.level) == [.notice, .notice])
                #expect(entries.map { $0.metadata["jobs.id"] } == ["\(failed)", "\(late)"])
                #expect(entries.map { $0.metadata["jobs.gave.up.reason"] } == ["attempts", "deadline"])
                #expect(entries.map { $0.metadata["jobs.attempts"] } == ["1", "0"])
                #expect(entries.map { $0.metadata["jobs.charged"] } == ["1", "0"])
                #expect(entries.allSatisfy { $0.metadata["jobs.kind"] == "send" })
                // The error is the bus's to log, under the same name.
                let attempt = try #require(bench.log.entries.first { $0.message == "attempt failed" })
                #expect(attempt.metadata["retry.job.id"] == "\(failed)" && attempt.error as? Trouble == .other)
            }
        }
    }

    @Test func failingStoreIsLoggedOnce() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                bench.store.fail(JobStoreError(.diskFull, "no space is left", next: "free some space"))
                await bench.world.clock.advance(by: .seconds(120))
                bench.store.fail(nil)
                await bench.world.clock.advance(by: .seconds(60))
                let entries = bench.entries.filter { $0.level > .info }
                #expect(
                    entries.map { "\($0.level) \($0.message)" } == [
                        "warning the store fails: the worker pauses and tries again", "notice the store works again",
                    ])
                #expect(entries[0].metadata["jobs.store.error"] == "diskFull")
                #expect(entries[0].error.map { "\($0)" } == "no space is left; next: free some space")
            }
        }
    }

    @Test func unregisteredKindIsLoggedOnce() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                for (kind, version, destination) in [("unknown", 1, "a"), ("unknown", 1, "b"), ("send", 2, "a"), ("send", 1, "a")] {
                    var job = NewJob(queue: "mail", kind: kind, version: version, payload: Data(#"{"text": "a"}"#.utf8))
                    job.destination = destination
                    _ = try await bench.store.push([job], limit: nil)
                }
                await bench.world.clock.advance(by: .seconds(60))
                let entries = bench.entries.filter { $0.level == .warning }
                #expect(
                    entries.map { $0.message } == [
                        "jobs wait for a worker with their kind: it is not registered here",
                        "jobs wait for a worker with their kind: it is not registered here",
                    ])
                #expect(entries.map { $0.metadata["jobs.kind"] } == ["unknown", "send"])
                #expect(entries.map { $0.metadata["jobs.version"] } == ["1", "2"])
            }
        }
    }

    @Test func noLogHasAPayload() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                let unreadable = NewJob(queue: "mail", kind: "send", payload: Data(#"{"confidential": 7}"#.utf8))
                _ = try await bench.store.push([unreadable], limit: nil)
                try await bench.queue.push([Send("fail confidential"), Send("confidential")])
                await bench.world.clock.advance(by: .seconds(60))
                let entry = try #require(bench.entries.first { $0.message == "a job waits: its payload cannot be decoded here" })
                #expect(entry.metadata["jobs.id"] == "\(unreadable.id)" && entry.level == .warning && entry.error == nil)
            }
            #expect(bench.log.entries.count > 5)
            for entry in bench.log.entries {
                #expect(!"\(entry.message) \(entry.metadata) \(entry.error as Any)".contains("confidential"))
            }
        }
    }

    @Test func keysAreListedInTheGuide() async throws {
        try await JobBench.run { bench in
            try await bench.working {
                try await bench.queue.push(Send("fail"))
                let unreadable = NewJob(queue: "mail", kind: "send", payload: Data())
                _ = try await bench.store.push([unreadable], limit: nil)
                bench.store.fail(JobStoreError(.busy, "it is locked", next: "wait"))
                await bench.world.clock.advance(by: .seconds(1))
                bench.store.fail(nil)
                await bench.world.clock.advance(by: .seconds(60))
            }
            let guide = try JobGuide.text()
            let keys = Set(bench.entries.flatMap(\.metadata.keys))
            #expect(keys.count > 6)
            for key in keys { #expect(guide.contains("`\(key)`"), "\(key)") }
        }
    }
}
