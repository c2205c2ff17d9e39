import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// The use of a job's budget.
struct CoreBudgetTests {
    private let throttle = RetryBudget.throttling(maxTokens: 10, tokenRatio: 0.1)
    private let bucket = RetryBudget.standard()

    /// The balance: in thousandths of a token if it throttles, in tokens otherwise.
    private func left(_ budget: RetryBudget) -> Int64? {
        (budget.state as? RetryThrottle)?.balance ?? (budget.state as? RetryTokenBucket)?.balance
    }

    /// The faults that do not indicate a server's load.
    private let uncounted: Set<AttemptFailure.Fault> = [.network, .local, .request]

    private func emptied() -> RetryBudget { .tokenBucket(capacity: 0) }

    @Test(arguments: CoreFailureTests.rows) func answeredFailuresOnAStablePathCount(row: CoreFailureTests.Row) {
        let isCounted = !uncounted.contains(row.stable) && row.report.mayRetry
        for mode in [RetryPolicy.Connectivity.wait(upTo: nil), .accelerate, .ignore] {
            let budget = RetryBudget.throttling()
            var bench = CoreBench()
            let job = bench.submit(.plain.budget(budget).connectivity(mode))
            bench.fail(job, row.report)
            #expect(left(budget) == (isCounted ? 9000 : 10_000), "\(mode)")
        }
    }

    @Test(arguments: CoreFailureTests.rows) func failuresThatOverlapAnOutageDoNotCount(row: CoreFailureTests.Row) {
        let isCounted = !uncounted.contains(row.overlapping) && row.report.mayRetry
        for mode in [RetryPolicy.Connectivity.wait(upTo: nil), .accelerate] {
            let budget = RetryBudget.throttling()
            var bench = CoreBench()
            let job = bench.submit(.plain.budget(budget).connectivity(mode))
            bench.edge()
            bench.fail(job, row.report)
            #expect(left(budget) == (isCounted ? 9000 : 10_000), "\(mode)")
        }
    }

    @Test(arguments: [AttemptFailure.network, .local])
    func unchargedFailuresNeedNoTokens(failure: AttemptFailure) {
        for mode in [RetryPolicy.Connectivity.wait(upTo: nil), .accelerate, .ignore] {
            var bench = CoreBench()
            let job = bench.submit(.plain.budget(emptied()).connectivity(mode))
            for _ in 1...3 {
                bench.fail(job, .classified(failure))
                bench.pass(to: bench.now + 10)
            }
            #expect(bench.starts(job).count == 4 && bench.result(job) == nil, "\(mode)")
        }
    }

    @Test func deniedRetryEndsTheJob() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(emptied()))
        bench.pass(to: 1)
        bench.fail(job)
        #expect(bench.result(job) == "budget" && bench.ended(job) == 1 && bench.next == nil)
    }

    @Test func fifthFailureIsDenied() {
        var bench = CoreBench()
        let job = bench.submit(.plain.giveUpAfter(maxAttempts: nil).budget(throttle))
        for _ in 1...10 where bench.result(job) == nil {
            bench.fail(job)
            bench.pass(to: bench.now + 100)
        }
        #expect(bench.starts(job).count == 5 && bench.result(job) == "budget")
    }

    // MARK: - The order

    @Test func permanentErrorTakesPrecedenceOverTheBudget() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(emptied()))
        bench.fail(job, .classified(.permanent))
        #expect(bench.result(job) == "permanent")
    }

    @Test func limitsTakePrecedenceOverTheBudget() {
        var bench = CoreBench()
        let last = bench.submit(.plain.giveUpAfter(maxAttempts: 1).budget(emptied()))
        let late = bench.submit(.plain.giveUpAfter(elapsed: .seconds(10)).budget(emptied()))
        bench.fail(last)
        bench.fail(late, .classified(.overload(retryAfter: .seconds(11))))
        #expect(bench.result(last) == "attempts" && bench.result(late) == "deadline")
    }

    @Test func lastFailureCountsButCostsNoTokens() {
        for budget in [throttle, bucket] {
            let before = left(budget)
            var bench = CoreBench()
            let last = bench.submit(.plain.giveUpAfter(maxAttempts: 1).budget(budget))
            let late = bench.submit(.plain.giveUpAfter(elapsed: .seconds(10)).budget(budget))
            let draining = bench.submit(.plain.budget(budget))
            bench.fail(last)
            bench.fail(late, .classified(.overload(retryAfter: .seconds(11))))
            bench.shutDown(drain: nil)
            bench.fail(draining)
            #expect(bench.result(draining) == "shutDown")
            #expect(left(budget) == (budget === throttle ? 7000 : before))
        }
    }

    @Test func attemptCutByTheDeadlineDoesNotCount() {
        var bench = CoreBench()
        let job = bench.submit(.plain.giveUpAfter(elapsed: .seconds(5)).budget(throttle))
        bench.pass(to: 5)
        bench.fail(job)
        #expect(bench.result(job) == "deadline, cut" && left(throttle) == 10_000)
    }

    @Test func anInterruptedAttemptDoesNotCount() {
        var bench = CoreBench()
        let job = bench.submit(.plain.interruptsAttempt(.whenUnsatisfied(grace: .zero)).budget(throttle))
        bench.down()
        bench.pass(to: 1)
        bench.fail(job, .unclassified)
        #expect(bench.failures(job) == ["network"] && left(throttle) == 10_000)
    }

    // MARK: - Costs and refunds

    @Test(arguments: [
        (FailureReport.unclassified, 495 as Int64), (.unanswered, 495), (.refused, 495),
        (.classified(.server), 495),
        (.timedOut, 490),
    ]) func aRetryAfterATimeoutCostsMore(report: FailureReport, left balance: Int64) {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(bucket))
        bench.fail(job, report)
        #expect(left(bucket) == balance)
    }

    @Test(arguments: [FailureReport.unclassified, .classified(.server)])
    func retryAfterAPolicyTimeoutCostsMore(report: FailureReport) {
        var bench = CoreBench()
        let job = bench.submit(.plain.attemptTimeout(.seconds(3)).budget(bucket))
        bench.pass(to: 3)
        bench.fail(job, report)
        #expect(bench.interruptions(job) == ["timeout at 3.0"] && left(bucket) == 490)
        bench.pass(to: 4)
        bench.fail(job, report)
        #expect(left(bucket) == 485, "the next one did not take too long")
    }

    @Test func successReturnsTheLastPriceOnce() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(bucket))
        bench.fail(job, .timedOut)
        bench.pass(to: 10)
        bench.fail(job)
        #expect(left(bucket) == 485)
        bench.pass(to: 20)
        bench.succeed(job)
        #expect(left(bucket) == 490)
        bench.succeed(job)
        bench.cancel(job)
        #expect(left(bucket) == 490, "the job is over")
    }

    @Test func networkFailuresDoNotChangeTheRefund() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(bucket))
        bench.fail(job, .classified(.network))
        bench.pass(to: 10)
        bench.fail(job)
        #expect(left(bucket) == 495)
        bench.pass(to: 20)
        bench.fail(job, .classified(.network))
        bench.pass(to: 30)
        #expect(left(bucket) == 495)
        bench.succeed(job)
        #expect(left(bucket) == 500)
    }

    @Test func firstReachedSuccessNeedsNoRetry() {
        var bench = CoreBench()
        let spender = bench.submit(.plain.budget(bucket))
        bench.fail(spender)
        let job = bench.submit(.plain.budget(bucket))
        bench.fail(job, .unreachable)
        bench.pass(to: 1)
        bench.succeed(job)
        #expect(left(bucket) == 496)
    }

    @Test func everySuccessCountsForThrottling() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(throttle))
        bench.fail(job)
        bench.pass(to: 1)
        bench.succeed(job)
        #expect(left(throttle) == 9100)
        let other = bench.submit(.plain.budget(throttle))
        bench.succeed(other)
        #expect(left(throttle) == 9200)
    }

    @Test func cancellationDoesNotChangeTheBudget() {
        for budget in [throttle, bucket] {
            var bench = CoreBench()
            let (waiting, running) = (bench.submit(.plain.budget(budget)), bench.submit(.plain.budget(budget)))
            bench.fail(waiting)
            bench.fail(running)
            let before = left(budget)
            bench.cancel(waiting)
            bench.pass(to: 1)
            bench.cancel(running)
            bench.fail(running)
            #expect(bench.result(waiting) == "cancelled" && bench.result(running) == "cancelled")
            #expect(before == (budget === throttle ? 8000 : 490) && left(budget) == before)
        }
    }

    @Test func successOfACancelledJobCounts() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(bucket))
        bench.fail(job)
        bench.pass(to: 1)
        bench.cancel(job)
        bench.succeed(job)
        #expect(left(bucket) == 500)
    }

    /// A job counts at the end of its first attempt that reached the server.
    @Test func aJobCountsOnceForAPercentage() {
        let share = RetryBudget.percentage(100, minimumPerSecond: 1, window: .seconds(1), clock: ManualClock())
        var bench = CoreBench()
        func balance() -> Int64? { (share.state as? RetryShare).map { $0.balance / Int64(RetryShare.retry) } }
        let job = bench.submit(.plain.budget(share))
        bench.fail(job, .unreachable)
        bench.pass(to: 10)
        #expect(balance() == 1)
        bench.fail(job)
        bench.pass(to: 20)
        #expect(balance() == 1, "one given, one taken")
        bench.fail(job)
        bench.pass(to: 30)
        #expect(balance() == 0, "one taken")
        bench.succeed(job)
        #expect(balance() == 0)
        let other = bench.submit(.plain.budget(share))
        bench.succeed(other)
        #expect(balance() == 1)
    }
}
