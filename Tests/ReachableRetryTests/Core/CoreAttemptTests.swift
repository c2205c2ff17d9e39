import Testing

@testable import ReachableRetry

/// Timeouts, deadlines and interruptions of attempts.
struct CoreAttemptTests {
    @Test func attemptOverItsTimeLimitIsCancelledAndCharged() {
        var bench = CoreBench()
        let job = bench.submit(.plain.attemptTimeout(.seconds(2)))
        bench.pass(to: 3)
        #expect(bench.interruptions(job) == ["timeout at 2.0"])
        bench.fail(job)
        bench.pass(to: 5)
        #expect(bench.failures(job) == ["unknown, charged"] && bench.starts(job) == [0, 4])
        bench.succeed(job)
        #expect(bench.next == nil, "what has ended takes no time")
    }

    @Test func attemptTimeLimitDoesNotRunDuringAWait() {
        var bench = CoreBench(online: false)
        let job = bench.submit(.plain.attemptTimeout(.seconds(2)))
        #expect(bench.next == nil)
        bench.pass(to: 10)
        bench.up()
        bench.pass(to: 20)
        #expect(bench.interruptions(job) == ["timeout at 12.0"])
    }

    @Test func timeoutDuringAnOutageIsTheNetworksFault() {
        var bench = CoreBench()
        let job = bench.submit(.plain.attemptTimeout(.seconds(2)))
        bench.down()
        bench.pass(to: 2)
        bench.fail(job)
        #expect(bench.failures(job) == ["network"] && bench.state(job) == .waiting)
    }

    @Test func attemptHasItsTimeLimit() {
        var bench = CoreBench()
        let policies = [
            RetryPolicy.plain, .plain.attemptTimeout(.seconds(3)), .plain.giveUpAfter(elapsed: .seconds(2)),
            .plain.attemptTimeout(.seconds(3)).giveUpAfter(elapsed: .seconds(2)),
        ]
        let jobs = policies.map { bench.submit($0) }
        let limits = jobs.map { bench.core.currentStart(of: $0, at: BusTime(.milliseconds(500)))?.limit }
        #expect(limits == [nil, .milliseconds(2500), .milliseconds(1500), .milliseconds(1500)])
        #expect(bench.core.currentStart(of: jobs[1], at: BusTime(.seconds(60)))?.limit == .zero)
        bench.fail(jobs[1])
        #expect(bench.core.currentStart(of: jobs[1], at: .start) == nil)
    }

    // MARK: - Interruption

    private func interrupted(after grace: Duration) -> RetryPolicy { .plain.interruptsAttempt(.whenUnsatisfied(grace: grace)) }

    @Test(arguments: [0, 0.5, 3]) func aLossInterruptsTheAttemptAfterItsGrace(grace: Double) {
        var bench = CoreBench()
        let job = bench.submit(interrupted(after: .milliseconds(Int(grace * 1000))))
        bench.pass(to: 1)
        bench.down()
        bench.pass(to: 5)
        #expect(bench.interruptions(job) == ["loss at \(1 + grace)"])
        bench.fail(job, .unclassified)
        #expect(bench.failures(job) == ["network"] && bench.state(job) == .waiting, "its error counts for nothing")
        bench.pass(to: 9)
        bench.up()
        #expect(bench.starts(job) == [0, 9])
    }

    @Test func lossInterruptsNothingByDefault() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.down()
        bench.pass(to: 100)
        #expect(bench.interruptions(job).isEmpty && bench.next == nil)
    }

    @Test func aReturnWithinItsGraceInterruptsNothing() {
        var bench = CoreBench()
        let job = bench.submit(interrupted(after: .seconds(2)))
        bench.down()
        bench.pass(to: 1.9)
        bench.up()
        #expect(bench.next == nil)
        bench.pass(to: 5)
        bench.down()
        bench.pass(to: 10)
        #expect(bench.interruptions(job) == ["loss at 7.0"], "each loss has its own grace")
    }

    @Test func interruptedAttemptRestartsAtOnceOnASatisfiedPath() {
        var bench = CoreBench()
        let job = bench.submit(interrupted(after: .zero).giveUpAfter(maxAttempts: 1))
        for second in 1...5 {
            bench.pass(to: Double(second))
            bench.down()
            bench.up()
            bench.fail(job)
        }
        #expect(bench.starts(job) == [0, 1, 2, 3, 4, 5] && bench.core[job]?.history.charged == 0)
    }

    @Test func lossAfterTheEndInterruptsNoAttempt() {
        var bench = CoreBench()
        let job = bench.submit(interrupted(after: .zero))
        bench.fail(job)
        bench.down()
        bench.pass(to: 10)
        #expect(bench.interruptions(job).isEmpty && bench.failures(job) == ["unknown, charged"])
    }

    @Test func anotherConditionsLossInterruptsToo() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let jobs = [RetryPolicy.Connectivity.wait(upTo: nil), .accelerate, .ignore].map { rule in
            bench.submit(interrupted(after: .seconds(1)).connectivity(rule), when: [login])
        }
        bench.pass(to: 1)
        bench.down()
        bench.pass(to: 3)
        #expect(jobs.map { bench.interruptions($0) } == [["loss at 2.0"], [], []], "two do not wait for the network")
        bench.up()
        bench.down(login)
        bench.pass(to: 6)
        #expect(jobs.map { bench.interruptions($0).last } == ["loss at 2.0", "loss at 4.0", "loss at 4.0"])
        bench.fail(jobs[1])
        #expect(bench.failures(jobs[1]) == ["network"] && bench.state(jobs[1]) == .waiting)
    }

    @Test func attemptIsInterruptedOnlyOnce() {
        var bench = CoreBench()
        let policy = interrupted(after: .seconds(3)).attemptTimeout(.seconds(2)).giveUpAfter(elapsed: .seconds(4))
        let job = bench.submit(policy)
        bench.down()
        bench.pass(to: 10)
        bench.cancel(job)
        #expect(bench.interruptions(job) == ["timeout at 2.0"])
        bench.fail(job)
        #expect(bench.result(job) == "cancelled")
    }
}
