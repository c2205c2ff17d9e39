import FoundationEssentials
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import TestTraits
import Testing

/// The time of a claim does not depend on the jobs that it cannot return.
///
/// Filling the stores keeps threads busy for seconds, and other tests need those of the default pool.
@Suite(.timeLimit(.minutes(5)), .blocking)
struct MemoryStoreScaleTests {
    private static let crowd = 50_000

    /// Fills a store with jobs of which only one may run, and returns the time of the fastest claim.
    private static func fastestClaim(
        _ crowd: Int, failing: AttemptResult.Outcome? = nil, _ change: @escaping (inout NewJob) -> Void
    ) async throws -> Duration {
        let desk = try await StoreDesk()
        for start in stride(from: 0, to: crowd, by: 1000) {
            let jobs = (start..<start + 1000).map { number in
                var job = NewJob(queue: "q", kind: "k", payload: Data("\(number)".utf8))
                change(&job)
                return job
            }
            _ = try await desk.store.push(jobs, limit: nil)
        }
        if let failing {
            for claimed in try await desk.claim(.max).jobs { try await desk.finish(claimed, failing) }
        }
        try await desk.push("first") { $0.kind = "open" }
        var fastest = Duration.seconds(1000)
        for _ in 0..<20 {
            let request = ClaimRequest(
                worker: desk.worker, limit: 100, lanes: (1...9).map { .init(lane: $0) }, lastKnownLane: 9)
            let start = ContinuousClock.now
            let claims = try await desk.store.claim(request)
            fastest = min(fastest, start.duration(to: .now))
            try #require(claims.jobs.map(\.job.kind) == ["open"])
            try await desk.store.giveBack(claims.jobs.map(\.ticket), by: desk.worker)
        }
        return fastest
    }

    /// A search through the crowd takes 10 ms at least.
    private static let limit = Duration.milliseconds(3)

    @Test func claimPassesOverBlockedJobs() async throws {
        // The first one is delayed.
        let time = try await Self.fastestClaim(Self.crowd) { ($0.serialKey, $0.delay) = ("s", .seconds(1000)) }
        #expect(time < Self.limit)
    }

    @Test func claimPassesOverDelayedJobs() async throws {
        let time = try await Self.fastestClaim(Self.crowd) { $0.delay = .seconds(1000) }
        #expect(time < Self.limit)
    }

    @Test func claimPassesOverJobsThatBackOff() async throws {
        let outcome = AttemptResult.Outcome.again(soft: .seconds(1000), isNetwork: true, hard: nil)
        let time = try await Self.fastestClaim(Self.crowd, failing: outcome) { _ in }
        #expect(time < Self.limit)
    }

    @Test func firstClaimAfterReconnectIsFast() async throws {
        let desk = try await StoreDesk()
        let jobs = (0..<Self.crowd).map { _ in NewJob(queue: "q", kind: "k", payload: Data()) }
        _ = try await desk.store.push(jobs, limit: nil)
        let outcome = AttemptResult.Outcome.again(soft: .seconds(1000), isNetwork: true, hard: nil)
        for claimed in try await desk.claim(.max).jobs { try await desk.finish(claimed, outcome) }
        try await desk.pass(.seconds(10))
        let open = ClaimRequest.Open(lane: 1, edge: desk.store.now)
        let request = ClaimRequest(worker: desk.worker, limit: 100, lanes: [open], lastKnownLane: 1)
        let clock = ContinuousClock()
        let start = clock.now
        let first = try await desk.store.claim(request).jobs
        let middle = clock.now
        let rest = try await desk.store.claim(
            ClaimRequest(worker: desk.worker, limit: .max, lanes: [open], lastKnownLane: 1))
        let (time, timeOfRest) = (middle - start, clock.now - middle)
        #expect(first.map(\.job.position) == Array(1...100) && rest.jobs.count == Self.crowd - 100)
        // Compared with a claim that passes all jobs.
        #expect(time * 4 < timeOfRest)
    }
}
