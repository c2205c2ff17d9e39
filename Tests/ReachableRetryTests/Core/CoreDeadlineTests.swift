import Testing

@testable import ReachableRetry

/// The deadline ends a job in every state.
struct CoreDeadlineTests {
    private let policy = RetryPolicy.plain.giveUpAfter(elapsed: .seconds(5))

    @Test func jobThatWaitsForTheNetworkGivesUp() {
        var bench = CoreBench(online: false)
        let job = bench.submit(policy)
        #expect(bench.next == 5)
        bench.pass(to: 10)
        bench.up()
        #expect(bench.ended(job) == 5 && bench.result(job) == "deadline" && bench.starts(job).isEmpty)
    }

    @Test func jobThatWaitsForAConditionGivesUp() {
        var bench = CoreBench()
        let job = bench.submit(policy, when: [bench.add(isSatisfied: false)])
        bench.pass(to: 10)
        #expect(bench.ended(job) == 5 && bench.result(job) == "deadline" && bench.starts(job).isEmpty)
    }

    @Test func backingOffJobGivesUp() {
        var bench = CoreBench()
        let job = bench.submit(policy.backoff(.constant(.seconds(60))))
        bench.pass(to: 1)
        bench.fail(job)
        #expect(bench.next == 5)
        bench.pass(to: 100)
        #expect(bench.ended(job) == 5 && bench.result(job) == "deadline" && bench.starts(job) == [0])
    }

    @Test func aRunningAttemptIsCancelledAndAwaited() {
        var bench = CoreBench()
        let job = bench.submit(policy)
        bench.pass(to: 7)
        #expect(bench.interruptions(job) == ["deadline at 5.0"] && bench.ended(job) == nil)
        bench.fail(job)
        #expect(bench.ended(job) == 7 && bench.result(job) == "deadline, cut")
    }

    @Test func predicatesDoNotApplyToCutAttempts() {
        var bench = CoreBench()
        let job = bench.submit(policy)
        bench.pass(to: 5)
        bench.fail(job, .classified(.permanent))
        #expect(bench.result(job) == "deadline, cut")
    }

    @Test func successOfACutAttemptCounts() {
        var bench = CoreBench()
        let job = bench.submit(policy)
        bench.pass(to: 6)
        bench.succeed(job)
        #expect(bench.result(job) == "ok" && bench.ended(job) == 6)
    }

    @Test func noAttemptStartsAtTheDeadline() {
        var bench = CoreBench(online: false)
        let login = bench.add(isSatisfied: false)
        let jobs = [bench.submit(policy), bench.submit(policy.connectivity(.ignore), when: [login])]
        let last = bench.submit(policy.connectivity(.ignore))
        bench.pass(to: 4)
        bench.fail(last)
        // Their start and their deadline are due at the same time, in either order.
        bench.skip(to: 5)
        bench.up()
        bench.up(login)
        bench.pass(to: 5)
        #expect(jobs.map { bench.starts($0) } == [[], []] && bench.starts(last) == [0])
        #expect((jobs + [last]).map { bench.ended($0) } == [5, 5, 5])
    }

    @Test func failureAtTheDeadlineIsTheLast() {
        var bench = CoreBench()
        let job = bench.submit(policy)
        bench.skip(to: 5)
        bench.fail(job, .unreachable)
        #expect(bench.ended(job) == 5 && bench.result(job) == "deadline", "its own error is the job's")
    }

    @Test func timeoutAfterTheDeadlineIsTheLastAttempt() {
        var bench = CoreBench()
        let job = bench.submit(policy.attemptTimeout(.seconds(4)))
        bench.pass(to: 6)
        #expect(bench.interruptions(job) == ["timeout at 4.0"], "once is enough")
        bench.fail(job)
        #expect(bench.ended(job) == 6 && bench.result(job) == "deadline")
    }

    @Test(arguments: [(3.9, [0, 4.9], nil), (4, [0], 5), (4.001, [0], 1), (60, [0], 1)] as [(Double, [Double], Double?)])
    func serverDelayBeyondTheDeadlineEndsTheJob(order: Double, starts: [Double], end: Double?) {
        var bench = CoreBench()
        let job = bench.submit(policy.backoff(.immediate))
        bench.pass(to: 1)
        bench.fail(job, .classified(.overload(retryAfter: .milliseconds(Int(order * 1000)))))
        bench.pass(to: 10)
        #expect(bench.starts(job) == starts && bench.ended(job) == end)
        #expect(bench.interruptions(job) == (end == nil ? ["deadline at 5.0"] : []))
    }

    @Test func deadlineOfZeroAllowsNoAttempt() {
        var bench = CoreBench()
        let job = bench.submit(.plain.giveUpAfter(elapsed: .zero))
        #expect(bench.starts(job).isEmpty && bench.result(job) == "deadline" && bench.ended(job) == 0)
    }

    @Test func deadlineCountsFromTheSubmission() {
        var bench = CoreBench(online: false)
        bench.pass(to: 3)
        let job = bench.submit(policy)
        bench.pass(to: 6)
        bench.up()
        #expect(bench.starts(job) == [6])
        bench.pass(to: 20)
        #expect(bench.interruptions(job) == ["deadline at 8.0"])
    }
}
