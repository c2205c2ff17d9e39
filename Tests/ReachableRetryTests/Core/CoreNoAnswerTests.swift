import Testing

@testable import ReachableRetry

/// Attempts without an answer after a reconnect: the network comes up, or the server is down.
struct CoreNoAnswerTests {
    /// A bench that came online at 10 s, with a job whose attempt started then.
    private func reconnected(destination: String? = nil) -> (CoreBench, JobKey) {
        var bench = CoreBench(online: false)
        let job = bench.submit(destination: destination)
        bench.pass(to: 10)
        bench.up()
        return (bench, job)
    }

    @Test(arguments: [(0, true), (29.9, true), (30, true), (30.001, false), (100, false)] as [(Double, Bool)])
    func noAnswerForThirtySecondsIsTheNetworksFault(after seconds: Double, isTheNetworks: Bool) {
        var (bench, job) = reconnected()
        bench.pass(to: 10 + seconds)
        bench.fail(job, .unanswered)
        #expect(bench.failures(job) == [isTheNetworks ? "network" : "server, charged"])
    }

    @Test func aBaselineIsNoReconnect() {
        for var bench in [CoreBench(), .unknown] {
            let job = bench.submit()
            bench.up()
            bench.fail(job, .unanswered)
            #expect(bench.failures(job) == ["server, charged"])
        }
    }

    @Test func successProvesItsDestination() {
        var (bench, job) = reconnected(destination: "a")
        let others = ["a", "b", nil].map { bench.submit(destination: $0) }
        bench.pass(to: 11)
        bench.succeed(job)
        for other in others { bench.fail(other, .unanswered) }
        #expect(others.map { bench.failures($0)[0] } == ["server, charged", "network", "network"])
    }

    @Test func successProvesItsScope() {
        var (bench, job) = reconnected()
        let scope = bench.add(Level(isSatisfied: false), isReachability: true)
        bench.up(scope)
        let other = bench.submit(to: scope)
        bench.succeed(job)
        bench.fail(other, .unanswered)
        #expect(bench.failures(other) == ["network"])
    }

    @Test func finalFailureWithoutAnswerProvesNothing() {
        var (bench, job) = reconnected()
        let other = bench.submit()
        bench.fail(job, .final)
        #expect(bench.result(job) == "permanent")
        bench.fail(other, .unanswered)
        #expect(bench.failures(other) == ["network"])
    }

    @Test func successOfAnEarlierEpochProvesNothing() {
        var bench = CoreBench()
        let early = bench.submit()
        bench.pass(to: 10)
        bench.edge()
        let late = bench.submit()
        bench.succeed(early)
        bench.fail(late, .unanswered)
        #expect(bench.failures(late) == ["network"])
    }

    @Test func nextReconnectStartsOver() {
        var (bench, job) = reconnected()
        bench.succeed(job)
        bench.pass(to: 60)
        bench.edge()
        let next = bench.submit()
        bench.pass(to: 61)
        bench.fail(next, .unanswered)
        #expect(bench.failures(next) == ["network"])
    }

    @Test func delaysAfterSilenceGrowSeparately() {
        var (bench, job) = reconnected()
        bench.fail(job, .unanswered)
        bench.pass(to: 11)
        bench.fail(job, .unanswered)
        bench.pass(to: 13)
        bench.fail(job)
        bench.pass(to: 14)
        #expect(bench.starts(job) == [10, 11, 13, 14], "the first charged failure is followed by the first delay")
    }
}
