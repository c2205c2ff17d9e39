import Foundation
import ReachableRetry
import Testing

@testable import ReachableJobs

/// The rules for jobs whose process ended during an attempt.
struct QueueCrashTests {
    private func job(crashes: Int, charged: Int = 0, isRepeatable: Bool = true) -> DurableJob {
        var new = NewJob(queue: "default", kind: "kind", payload: Data())
        new.isRepeatable = isRepeatable
        var job = DurableJob(new, position: 1, now: StoreInstant(nanoseconds: 0), created: .distantPast)
        (job.counters.crashes, job.counters.charged, job.hasUnknownOutcome) = (crashes, charged, crashes > 0)
        return job
    }

    @Test func theThirdCrashIsTheFirstThatIsCharged() {
        #expect((0...4).map { Crashes.charged(job(crashes: $0).counters) } == [0, 0, 0, 1, 2])
        #expect((0...4).map { Crashes.runsAlone(job(crashes: $0).counters) } == [false, false, false, true, true])
        #expect(job(crashes: 4, charged: 3).counters.past.charged == 5)
    }

    @Test func crashesReachTheLimitOfAttempts() {
        #expect(Crashes.reasonToStop(job(crashes: 3, charged: 1), maxAttempts: 3) == nil)
        #expect(Crashes.reasonToStop(job(crashes: 3, charged: 2), maxAttempts: 3) == "attempts")
        #expect(Crashes.reasonToStop(job(crashes: 0, charged: 9), maxAttempts: 3) == nil)
    }

    @Test func aJobWithoutALimitFailsAfterTwentyCrashes() {
        #expect(Crashes.reasonToStop(job(crashes: 19), maxAttempts: nil) == nil)
        #expect(Crashes.reasonToStop(job(crashes: 20), maxAttempts: nil) == "crashes")
    }

    @Test func anAttemptThatMayHaveBeenCarriedOutIsNotRepeated() {
        #expect(Crashes.reasonToStop(job(crashes: 0, isRepeatable: false), maxAttempts: 3) == nil)
        #expect(Crashes.reasonToStop(job(crashes: 1, isRepeatable: false), maxAttempts: 3) == "outcomeUnknown")
    }
}
