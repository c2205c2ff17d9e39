import Testing

@testable import ReachableRetry

/// The memory of a waiting job besides its task: 152 bytes, including spare capacity of arrays.
@Suite struct SizeTests {
    @Test func `a job that waits takes 116 bytes`() {
        let sizes = [MemoryLayout<JobState?>.stride, MemoryLayout<UInt32>.stride, MemoryLayout<GateQueue.Entry>.stride]
        #expect(sizes.reduce(0, +) <= 116, "\(sizes)")
    }

    @Test func `nothing is kept apart for a job that has not been started`() throws {
        var core = RetryBusCore(release: .gated)
        let scope = core.addCondition(Level(isSatisfied: false), isReachability: true, unknownUntil: .never)
        let policy = RetryPolicy.default.connectivity(.wait(upTo: nil))
        let (key, _, _) = core.submit(policy.rules, scope: scope, at: .start)
        #expect(try #require(core[key]).hasHistory == false)
        _ = core.update(scope, Level(isSatisfied: true, epoch: 1), at: .start + .seconds(1))
        #expect(try #require(core[key]).hasHistory)
    }

    @Test func `when a crowd is gone so is its memory`() {
        var core = RetryBusCore(release: .gated)
        let scope = core.addCondition(Level(isSatisfied: false), isReachability: true, unknownUntil: .never)
        let rules = RetryPolicy.default.giveUpAfter(elapsed: .seconds(60)).rules
        let keys = (0..<1000).map { _ in core.submit(rules, scope: scope, at: .start).key }
        #expect(core.timerCount == 1000)
        for key in keys {
            _ = core.cancel(key, at: .start + .seconds(1))
            _ = core.takeEnded(key)
        }
        // As every change does.
        _ = core.tick(at: .start + .seconds(1))
        #expect(core.count == 0 && core.jobs.isEmpty && core.timers.capacity == 0 && core.nextTime().isNever)
        // The names of ended jobs are free.
        let new = core.submit(rules, scope: scope, at: .start + .seconds(2)).key
        #expect(core[new] != nil && !keys.contains(new) && keys.allSatisfy { core[$0] == nil })
    }
}
