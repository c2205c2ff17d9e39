import Testing

@testable import ReachableRetry

/// The fault of a failure, and its charge.
struct CoreFailureTests {
    /// The evidence of a failure and its fault, on a stable path and if the attempt overlapped an outage.
    struct Row: Sendable, CustomTestStringConvertible {
        var report: FailureReport
        var stable: AttemptFailure.Fault
        var overlapping: AttemptFailure.Fault

        var testDescription: String { "\(report.evidence)" }
    }

    static let rows = [
        Row(report: .unreachable, stable: .network, overlapping: .network),
        Row(report: .unanswered, stable: .server, overlapping: .network),
        Row(report: .timedOut, stable: .server, overlapping: .network),
        Row(report: .refused, stable: .server, overlapping: .network),
        Row(report: .unclassified, stable: .unknown, overlapping: .network),
        Row(report: .classified(.transient), stable: .unknown, overlapping: .network),
        Row(report: .classified(.network), stable: .network, overlapping: .network),
        Row(report: .noNameServer, stable: .network, overlapping: .network),
        Row(report: .noSourceAddress, stable: .local, overlapping: .network),
        Row(report: .shortage, stable: .local, overlapping: .local),
        Row(report: .classified(.local), stable: .local, overlapping: .local),
        Row(report: .classified(.server), stable: .server, overlapping: .server),
        Row(report: .classified(.request), stable: .request, overlapping: .request),
        Row(
            report: .classified(.overload(retryAfter: .seconds(3))), stable: .overload(retryAfter: .seconds(3)),
            overlapping: .overload(retryAfter: .seconds(3))),
        Row(report: .classified(.permanent), stable: .unknown, overlapping: .network),
    ]

    /// The ways in which an attempt overlaps an outage.
    enum Overlap: CaseIterable {
        case lost
        case lostAndBack
        case switched
        case lostBeforeAnybodyWasTold
    }

    enum Blindness: CaseIterable {
        case nobodyLooked
        case monitorEnded
    }

    /// Plays an attempt that overlaps an outage; returns its failure.
    private func failure(_ report: FailureReport, during overlap: Overlap, _ policy: RetryPolicy) -> [String] {
        var bench = CoreBench()
        let job = bench.submit(policy)
        bench.pass(to: 1)
        switch overlap {
        case .lost: bench.down()
        case .lostAndBack:
            bench.down()
            bench.up()
        case .switched: bench.edge()
        case .lostBeforeAnybodyWasTold: break
        }
        bench.pass(to: 2)
        bench.fail(job, report, isGone: overlap == .lostBeforeAnybodyWasTold)
        return bench.failures(job)
    }

    private func text(_ fault: AttemptFailure.Fault, isCharged: Bool) -> String { "\(fault)\(isCharged ? ", charged" : "")" }

    @Test(arguments: rows) func evidenceDecidesOnAStablePath(row: Row) {
        var bench = CoreBench()
        let job = bench.submit()
        bench.pass(to: 1)
        bench.fail(job, row.report)
        #expect(bench.failures(job) == [text(row.stable, isCharged: row.stable.isCharged)])
    }

    @Test(arguments: rows, Overlap.allCases) func failureThatOverlapsAnOutageIsTheNetworksFault(row: Row, overlap: Overlap) {
        let expected = text(row.overlapping, isCharged: row.overlapping.isCharged)
        #expect(failure(row.report, during: overlap, .plain) == [expected])
    }

    @Test(arguments: rows, Overlap.allCases) func jobThatDoesNotWaitIsAlwaysCharged(row: Row, overlap: Overlap) {
        let accelerated = failure(row.report, during: overlap, .plain.connectivity(.accelerate))
        #expect(accelerated == [text(row.overlapping, isCharged: row.overlapping != .local)])
        // The overlap does not apply; the settling time after a reconnect does.
        let isSettling =
            [.unanswered, .timedOut].contains(row.report.evidence) && (overlap == .lostAndBack || overlap == .switched)
        let ignored = failure(row.report, during: overlap, .plain.connectivity(.ignore))
        #expect(ignored == [text(isSettling ? .network : row.stable, isCharged: row.stable != .local)])
    }

    @Test(arguments: rows, Blindness.allCases) func failuresWithoutAWorkingMonitorAreCharged(row: Row, blindness: Blindness) {
        var bench = blindness == .nobodyLooked ? CoreBench.unknown : CoreBench(online: false)
        if blindness == .monitorEnded { bench.finish() }
        let job = bench.submit()
        bench.pass(to: 2)
        #expect(bench.starts(job).count == 1)
        bench.fail(job, row.report, isGone: true)
        #expect(bench.failures(job) == [text(row.stable, isCharged: row.stable != .local)])
    }

    @Test(arguments: rows) func lookupHappensOnlyIfItMatters(row: Row) {
        for policy in [RetryPolicy.plain, .plain.connectivity(.accelerate), .plain.connectivity(.ignore)] {
            var bench = CoreBench()
            let job = bench.submit(policy)
            let matters = policy.rules.connectivity == .wait(upTo: nil) && row.stable.isCharged && row.stable != row.overlapping
            #expect(bench.core.failureContext(of: job)?.wouldCharge(row.report) == matters)
            bench.finish()
            #expect(bench.core.failureContext(of: job)?.wouldCharge(row.report) == false, "who does not see does not answer")
        }
    }

    @Test func failureUsesTheEpochOfItsStart() {
        var bench = CoreBench(online: false)
        let job = bench.submit()
        bench.pass(to: 1)
        bench.up()
        bench.pass(to: 2)
        bench.fail(job)
        #expect(bench.failures(job) == ["unknown, charged"], "the edge that started it is no overlap")
    }

    @Test func changeOfAnotherConditionIsNoOverlap() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(when: [login])
        bench.down(login)
        bench.fail(job)
        #expect(bench.failures(job) == ["unknown, charged"])
    }

    @Test func aPermanentFailureEndsTheJobAtOnce() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.pass(to: 1)
        bench.fail(job, .classified(.permanent))
        #expect(bench.result(job) == "permanent" && bench.ended(job) == 1 && bench.next == nil)
    }

    @Test func chargedFailuresEndAtTheLimit() {
        var bench = CoreBench()
        let job = bench.submit(.plain.giveUpAfter(maxAttempts: 2))
        bench.fail(job, .classified(.network))
        bench.pass(to: 1)
        bench.fail(job)
        #expect(bench.result(job) == nil)
        bench.pass(to: 2)
        bench.fail(job, .classified(.network))
        #expect(bench.result(job) == nil, "failures of the network do not count, whatever else was charged")
        bench.pass(to: 4)
        bench.fail(job)
        #expect(bench.starts(job) == [0, 1, 2, 4] && bench.result(job) == "attempts" && bench.ended(job) == 4)
    }

    @Test func unreachableOnASteadyPathIsUnchargedOncePerEpoch() {
        var bench = CoreBench()
        let job = bench.submit(.plain.giveUpAfter(maxAttempts: nil))
        bench.fail(job, .unreachable)
        bench.pass(to: 10)
        bench.fail(job, .unreachable)
        bench.pass(to: 20)
        bench.fail(job, .unanswered)
        bench.pass(to: 30)
        bench.fail(job, .unreachable)
        bench.edge()
        bench.fail(job, .unreachable)
        #expect(bench.failures(job) == ["network", "unknown, charged", "server, charged", "unknown, charged", "network"])
    }

    @Test func failedLookupIsUnchargedUntilOthersGetAnswers() {
        var bench = CoreBench()
        let (job, other) = (bench.submit(.plain.giveUpAfter(maxAttempts: nil)), bench.submit())
        for time in [10.0, 20, 30] {
            bench.fail(job, .noNameServer)
            bench.pass(to: time)
        }
        bench.succeed(other)
        bench.fail(job, .noNameServer)
        bench.pass(to: 40)
        bench.fail(job, .noNameServer)
        #expect(bench.failures(job) == ["network", "network", "network", "server, charged", "network"])
    }

    @Test(
        arguments: [RetryPolicy.Connectivity.wait(upTo: nil), .accelerate, .ignore],
        [ReleasePolicy.immediate, .unjittered, .tuned(backoff: .milliseconds(1))])
    func unchargedFailureDelaysHalfASecond(_ connectivity: RetryPolicy.Connectivity, _ release: ReleasePolicy) {
        var bench = CoreBench(release)
        let policy = RetryPolicy(.immediate).giveUpAfter(maxAttempts: nil).connectivity(connectivity)
        let job = bench.submit(policy)
        bench.fail(job, .classified(.network))
        let isCharged = connectivity != .wait(upTo: nil)
        #expect(isCharged == bench.failures(job)[0].contains("charged"))
        bench.pass(to: 0.4)
        #expect((bench.starts(job).count == 1) == !isCharged)
    }

    // MARK: - Shortage

    @Test func shortageLimitGrowsByOneASecond() {
        var bench = CoreBench()
        let jobs = (0..<10).map { _ in bench.submit(RetryPolicy(.constant(.seconds(60)))) }
        for job in jobs[5...] { bench.fail(job, .shortage) }
        let more = (0..<3).map { _ in bench.submit() }
        #expect(more.allSatisfy { bench.starts($0).isEmpty }, "five run, and ran when the last one failed")
        bench.succeed(jobs[0])
        #expect(bench.starts(more[0]) == [0] && bench.starts(more[1]).isEmpty)
        bench.pass(to: 1)
        #expect(bench.starts(more[1]) == [1])
        bench.pass(to: 2)
        #expect(bench.starts(more[2]) == [2])
    }

    @Test func shortageAllowsAtLeastOneAttempt() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.fail(job, .shortage)
        let others = [bench.submit(), bench.submit()]
        #expect(others.map { bench.starts($0) } == [[0], []])
    }

    @Test func shortageTimerRunsOnlyForQueuedJobs() {
        var bench = CoreBench()
        let jobs = (0..<2).map { _ in bench.submit(RetryPolicy(.constant(.seconds(60)))) }
        bench.fail(jobs[0], .shortage)
        let next = bench.submit()
        #expect(bench.state(next) == .queued && bench.next == 1)
        bench.cancel(next)
        #expect(bench.next == 60)
    }

    @Test func shortageTimerDoesNotExceedTheBusLimit() {
        var bench = CoreBench(maxConcurrent: 2)
        let jobs = (0..<4).map { _ in bench.submit(RetryPolicy(.constant(.seconds(60)))) }
        bench.fail(jobs[0], .shortage)
        bench.pass(to: 1)
        #expect(jobs.map { bench.starts($0) } == [[0], [0], [1], []] && bench.next == 60)
    }

    @Test func delaysGrowWithShortages() {
        var bench = CoreBench()
        let job = bench.submit()
        for time in [1.0, 3, 7] {
            bench.fail(job, .shortage)
            bench.pass(to: time)
        }
        #expect(bench.starts(job) == [0, 1, 3, 7])
    }

    @Test func shortageIsUnchargedAndDelaysASecond() {
        var bench = CoreBench()
        let job = bench.submit(RetryPolicy(.immediate).giveUpAfter(maxAttempts: 1))
        for time in 1...20 {
            bench.fail(job, .shortage)
            bench.pass(to: Double(time))
        }
        #expect(bench.starts(job) == (0...20).map(Double.init) && !bench.failures(job).contains { $0.contains("charged") })
        #expect(bench.warnings == 1)
        bench.succeed(job)
        let next = bench.submit()
        bench.fail(next, .shortage)
        #expect(bench.warnings == 2, "what was short before is forgotten with the last job")
    }
}

extension AttemptFailure.Fault {
    /// True if it is charged to a job that waits for the network.
    fileprivate var isCharged: Bool { self != .network && self != .local }
}
