import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Testing

/// Unanswered and cancelled requests.
@Suite(.timeLimit(.minutes(20))) struct TimeoutTests {
    private static let job = HTTPRetryOptions.with { $0.job.id = "job" }

    @Test func policyTimeoutEndsAttempt() async throws {
        try await Exchange.run(answering(first: .stall)) { exchange in
            var request = try exchange.request()
            // Foundation would cut it to 0 s.
            request.timeoutInterval = 0.5
            let loading = Task { [request] in
                try await exchange.session.data(
                    for: request, retrying: .steady.attemptTimeout(.milliseconds(1500)), on: exchange.bus, options: Self.job)
            }
            try await exchange.timeOutFirstAttempt(of: "job", after: .milliseconds(1500))
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    @Test func deadConnectionEndsAfterFiveSeconds() async throws {
        try await Exchange.run(answering(first: .stall)) { exchange in
            let loading = try exchange.load(options: Self.job)
            try await exchange.loseSource(for: .milliseconds(4999))
            #expect(exchange.bus.pending.map(\.state) == [.running])
            exchange.clock.advance(by: .milliseconds(1))
            let parked = try await exchange.bus.parked("job")
            #expect(parked.unmet == ["internet"] && parked.charged == 0 && parked.lastError == nil)
            try exchange.regainSource()
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    @Test func policyCanKeepDeadConnection() async throws {
        try await Exchange.run(answering(.stall)) { exchange in
            let policy = RetryPolicy.steady.interruptsAttempt(.never).attemptTimeout(.seconds(60)).giveUpAfter(maxAttempts: 1)
            let loading = try exchange.load(retrying: policy, options: Self.job)
            try await exchange.loseSource(for: .milliseconds(59_999))
            #expect(exchange.bus.pending.map(\.state) == [.running])
            exchange.bus.cancel("job")
            await #expect(throws: CancellationError.self) { _ = try await loading.value }
        }
    }

    @Test func jobEndsDeadConnection() async throws {
        try await Exchange.run(answering(first: .stall)) { exchange in
            let job = exchange.session.job(
                for: try exchange.request(), retrying: .steady, on: exchange.bus, options: Self.job)
            let loading = Task { try await job.value }
            try await exchange.loseSource(for: .seconds(5))
            #expect(try await exchange.bus.parked("job").charged == 0)
            try exchange.regainSource()
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    @Test func unsafeRequestOnDeadConnectionIsSentOnce() async throws {
        try await Exchange.run(answering(.stall)) { exchange in
            let loading = try exchange.load("POST")
            try await exchange.loseSource(for: .seconds(5))
            await #expect(throws: RetryError.attemptInterrupted) { _ = try await loading.value }
            #expect(exchange.server.requests.count == 1)
        }
    }

    @Test func unsafeRequestThatTimedOutIsSentOnce() async throws {
        try await Exchange.run(answering(.stall)) { exchange in
            let loading = try exchange.load("POST", retrying: .steady.attemptTimeout(.seconds(2)), options: Self.job)
            try await exchange.server.untilRequests(1)
            exchange.clock.advance(by: .seconds(2))
            await #expect(throws: RetryError.attemptTimedOut) { _ = try await loading.value }
            #expect(exchange.server.requests.count == 1)
        }
    }

    @Test func slowAdapterHasSentNothing() async throws {
        try await Exchange.run(answering(.ok)) { exchange in
            let options = HTTPRetryOptions.with {
                $0.job.id = "job"
                $0.adapt = { request, attempt in
                    // Until the task is cancelled.
                    if attempt.number == 1 { for await _ in AsyncStream<Void>.makeStream().stream {} }
                    try Task.checkCancellation()
                    return request
                }
            }
            let loading = Task.immediate { [request = try exchange.request("POST")] in
                try await exchange.session.data(
                    for: request, retrying: .steady.attemptTimeout(.seconds(2)), on: exchange.bus, options: options)
            }
            #expect(exchange.bus.pending.map(\.state) == [.running])
            exchange.clock.advance(by: .seconds(2))
            #expect(try await exchange.bus.parked("job").lastError as? RetryError == .attemptTimedOut)
            exchange.clock.advance(by: .seconds(1))
            #expect(try await loading.value.0 == Data("ok".utf8))
        }
    }

    @Test func policyDeadlineEndsJob() async throws {
        try await Exchange.run(answering(.stall)) { exchange in
            let loading = try exchange.load(retrying: .steady.giveUpAfter(elapsed: .seconds(7)))
            try await exchange.server.untilRequests(1)
            exchange.clock.advance(by: .seconds(7))
            await #expect(throws: RetryError.deadline) { _ = try await loading.value }
        }
    }

    /// Uses real time; Foundation's timeouts are whole seconds.
    @Test func requestTimeoutEndsSilence() async throws {
        try await Exchange.run(answering(first: .stall)) { exchange in
            let events = exchange.bus.events
            var request = try exchange.request()
            request.timeoutInterval = 0.25
            let clock = ContinuousClock()
            let start = clock.now
            let (data, _) = try await exchange.session.data(
                for: request, retrying: .steady.backoff(.immediate).giveUpAfter(maxAttempts: nil), on: exchange.bus)
            #expect(data == Data("ok".utf8) && clock.now - start >= .milliseconds(900))
            let failed = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect((failed.error as? URLError)?.code == .timedOut && failed.isCharged)
        }
    }

    @Test func cancellationEndsSessionTask() async throws {
        try await Exchange.run(answering(.stall)) { exchange in
            let loading = try exchange.load()
            let downloading = Task { [request = try exchange.request()] in
                try await exchange.session.download(for: request, retrying: .steady, on: exchange.bus)
            }
            try await exchange.cancelUnanswered(loading, downloading)
            let tasks = await withCheckedContinuation { continuation in
                exchange.session.getAllTasks { continuation.resume(returning: $0.count) }
            }
            #expect(tasks == 0)
            // Requests run in a companion, which `getAllTasks` does not show.
            try await exchange.server.untilNoConnections()
        }
    }
}
