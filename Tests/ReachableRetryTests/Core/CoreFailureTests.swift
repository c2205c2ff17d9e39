import Testing

@testable import ReachableRetry

/// Whose fault a failure is, and what it costs.
struct CoreFailureTests {
    /// What is known about a failure, and whose fault it is, on a stable path and if the attempt overlapped an outage.
    struct Row: Sendable, CustomTestStringConvertible {
        var report: FailureReport
        var stable: FailureClass
        var overlapping: FailureClass

        var testDescription: String { "\(report)" }
    }

    static let rows = [
        Row(report: .unreachable, stable: .connectivity, overlapping: .connectivity),
        Row(report: .unanswered, stable: .server(retryAfter: nil), overlapping: .connectivity),
        Row(report: .timedOut, stable: .server(retryAfter: nil), overlapping: .connectivity),
        Row(report: .refused, stable: .server(retryAfter: nil), overlapping: .connectivity),
        Row(report: .unclassified, stable: .transient, overlapping: .connectivity),
        Row(report: .classified(.transient), stable: .transient, overlapping: .connectivity),
        Row(report: .classified(.connectivity), stable: .connectivity, overlapping: .connectivity),
        Row(
            report: .classified(.server(retryAfter: nil)), stable: .server(retryAfter: nil), overlapping: .server(retryAfter: nil)),
        Row(
            report: .classified(.server(retryAfter: .seconds(3))), stable: .server(retryAfter: .seconds(3)),
            overlapping: .server(retryAfter: .seconds(3))),
        Row(report: .classified(.permanent), stable: .permanent, overlapping: .permanent),
    ]

    /// How an attempt can overlap an outage.
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
        _ = bench.judge(job, report, isGone: overlap == .lostBeforeAnybodyWasTold)
        return bench.failures(job)
    }

    private func text(_ failure: FailureClass, isCharged: Bool) -> String { "\(failure)\(isCharged ? ", charged" : "")" }

    @Test(arguments: rows) func onAStablePathAFailureIsWhatItLooksLike(row: Row) {
        var bench = CoreBench()
        let job = bench.submit()
        bench.pass(to: 1)
        _ = bench.judge(job, row.report)
        #expect(bench.failures(job) == [text(row.stable, isCharged: row.stable != .connectivity)])
    }

    @Test(arguments: rows, Overlap.allCases) func aFailureThatOverlapsAnOutageIsTheNetworks(row: Row, overlap: Overlap) {
        let expected = text(row.overlapping, isCharged: row.overlapping != .connectivity)
        #expect(failure(row.report, during: overlap, .plain) == [expected])
    }

    @Test(arguments: rows, Overlap.allCases) func whoDoesNotWaitIsChargedForAll(row: Row, overlap: Overlap) {
        let accelerated = failure(row.report, during: overlap, .plain.connectivity(.accelerate))
        #expect(accelerated == [text(row.overlapping, isCharged: true)])
        // What happened during the attempt does not count; that a network comes up does.
        let isSettling = [.unanswered, .timedOut].contains(row.report) && (overlap == .lostAndBack || overlap == .switched)
        let ignored = failure(row.report, during: overlap, .plain.connectivity(.ignore))
        #expect(ignored == [text(isSettling ? .connectivity : row.stable, isCharged: true)])
    }

    @Test(arguments: rows, Blindness.allCases) func withoutAMonitorThatSeesAllIsCharged(row: Row, blindness: Blindness) {
        var bench = blindness == .nobodyLooked ? CoreBench.unknown : CoreBench(online: false)
        if blindness == .monitorEnded { bench.finish() }
        let job = bench.submit()
        bench.pass(to: 2)
        #expect(bench.starts(job).count == 1)
        _ = bench.judge(job, row.report, isGone: true)
        #expect(bench.failures(job) == [text(row.stable, isCharged: true)])
    }

    @Test(arguments: rows) func theKernelIsAskedOnlyIfItsAnswerMatters(row: Row) {
        for policy in [RetryPolicy.plain, .plain.connectivity(.accelerate), .plain.connectivity(.ignore)] {
            var bench = CoreBench()
            let job = bench.submit(policy)
            let matters = policy.rules.connectivity == .wait(upTo: nil) && row.stable != row.overlapping
            #expect(bench.core.wouldCharge(job, row.report) == matters)
            bench.finish()
            #expect(!bench.core.wouldCharge(job, row.report), "who does not see does not answer")
        }
    }

    @Test func theEpochIsTheOneAtWhichTheAttemptStarted() {
        var bench = CoreBench(online: false)
        let job = bench.submit()
        bench.pass(to: 1)
        bench.up()
        bench.pass(to: 2)
        bench.fail(job)
        #expect(bench.failures(job) == ["transient, charged"], "the edge that started it is no overlap")
    }

    @Test func anotherConditionsChangeIsNoOverlap() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(when: [login])
        bench.down(login)
        bench.fail(job)
        #expect(bench.failures(job) == ["transient, charged"])
    }

    @Test func aPermanentFailureEndsTheJobAtOnce() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.pass(to: 1)
        let judgement = bench.judge(job, .classified(.permanent))
        #expect(judgement == .settled)
        #expect(bench.result(job) == "permanent" && bench.ended(job) == 1 && bench.next == nil)
    }

    @Test func asManyFailuresAreChargedAsThePolicyAllows() {
        var bench = CoreBench()
        let job = bench.submit(.plain.giveUpAfter(maxAttempts: 2))
        bench.fail(job, .unreachable)
        bench.pass(to: 1)
        bench.fail(job)
        #expect(bench.result(job) == nil)
        bench.pass(to: 2)
        bench.fail(job, .unreachable)
        #expect(bench.result(job) == nil, "failures of the network do not count, whatever else was charged")
        bench.pass(to: 4)
        let judgement = bench.judge(job)
        #expect(judgement == .settled)
        #expect(bench.starts(job) == [0, 1, 2, 4] && bench.result(job) == "attempts" && bench.ended(job) == 4)
    }
}
