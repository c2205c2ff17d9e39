import Testing

@testable import ReachableRetry

/// The triggers of attempts and the time that they save.
struct CoreStartReasonTests {
    private let slow = RetryPolicy.plain.backoff(.constant(.seconds(60)))

    @Test func newJobHasTheFirstTrigger() {
        var bench = CoreBench()
        bench.edge()
        let job = bench.submit()
        #expect(bench.startReason(job) == StartReason(trigger: .first), "it did not wait for the edge before it")
    }

    @Test func aDelayThatEndsInTimeSavesNothing() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.fail(job)
        bench.pass(to: 1)
        #expect(bench.startReason(job) == StartReason(trigger: .timer))
    }

    @Test func aReconnectSavesTheRestOfTheDelay() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job)
        bench.pass(to: 20)
        bench.edge()
        #expect(bench.startReason(job) == StartReason(trigger: .reconnect, saved: .seconds(40), sinceEdge: .zero))
    }

    @Test func aReconnectAfterTheDelaySavesNothing() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job)
        bench.down()
        bench.pass(to: 100)
        bench.up()
        #expect(bench.startReason(job) == StartReason(trigger: .reconnect, sinceEdge: .zero))
    }

    @Test func queueTimeAfterAReconnectCounts() {
        var bench = CoreBench(online: false, .gated)
        let (first, second) = (bench.submit(), bench.submit())
        bench.up()
        bench.pass(to: 3)
        bench.succeed(first)
        #expect(bench.startReason(first)?.sinceEdge == .zero)
        #expect(bench.startReason(second) == StartReason(trigger: .reconnect, sinceEdge: .seconds(3)))
    }

    @Test func aReconnectDuringTheAttemptWasNotWaitedFor() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.edge()
        bench.pass(to: 50)
        bench.fail(job, .classified(.server))
        #expect(bench.startReason(job) == StartReason(trigger: .reconnect, saved: .seconds(60)))
    }

    @Test func serverDelayAfterAReconnectIsATimer() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job, .classified(.overload(retryAfter: .seconds(30))))
        bench.edge()
        bench.pass(to: 30)
        #expect(bench.startReason(job) == StartReason(trigger: .timer, saved: .seconds(30)))
    }

    @Test func triggersDistinguishConditionsAndRetryNow() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(slow, when: [login])
        bench.fail(job)
        bench.pass(to: 1)
        bench.edge(login)
        #expect(bench.startReason(job) == StartReason(trigger: .condition, saved: .seconds(59)))
        bench.fail(job)
        bench.pass(to: 3)
        bench.retryNow()
        #expect(bench.startReason(job) == StartReason(trigger: .retryNow, saved: .seconds(58)))
    }
}
