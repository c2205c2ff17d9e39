import Testing

@testable import ReachableRetry

/// Attempts that break off after they have kept a part of a transfer.
struct CoreProgressTests {
    private static let step: Int64 = 65_536

    /// Fails an attempt that ends with so many bytes; returns the time until the next one.
    private func cut(_ bench: inout CoreBench, _ job: JobKey, at kept: Int64, _ report: FailureReport = .unclassified) -> Double? {
        bench.keep(kept, job)
        bench.fail(job, report)
        let start = bench.now
        guard let next = bench.next, bench.result(job) == nil else { return nil }
        bench.pass(to: next)
        return bench.now - start
    }

    @Test func progressIsNotChargedAndEndsTheBackoff() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.keep(0, job)
        let delays = [Self.step - 1, 0, Self.step * 2 - 1, Self.step * 3, Self.step * 4].map { cut(&bench, job, at: $0) }
        #expect(delays == [1, 2, 1, 1, 1], "the second and later ones raise the most by enough")
        #expect(bench.failures(job) == ["unknown, charged", "unknown, charged", "unknown", "unknown", "unknown"])
        #expect(cut(&bench, job, at: Self.step) == 1, "failures are counted from the last progress")
        #expect(cut(&bench, job, at: Self.step) == nil && bench.result(job) == "attempts", "four are charged")
    }

    /// A server that ignores ranges sends the same bytes again.
    @Test func beginningAgainRaisesNothing() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.keep(0, job)
        for _ in 0..<5 { _ = cut(&bench, job, at: 300_000) }
        #expect(bench.failures(job).filter { $0.hasSuffix("charged") }.count == 4 && bench.result(job) == "attempts")
    }

    /// The first number is what other lives of the job have kept.
    @Test func firstReportIsWhatWasThere() {
        var bench = CoreBench()
        let job = bench.submit()
        _ = cut(&bench, job, at: 1_000_000)
        #expect(bench.failures(job) == ["unknown, charged"])
    }

    @Test func halfSecondIsLeftWithoutADelay() {
        var bench = CoreBench()
        let job = bench.submit(.plain.backoff(.immediate))
        bench.keep(0, job)
        #expect(cut(&bench, job, at: Self.step) == 0.5)
    }

    @Test(arguments: [(FailureReport.classified(.server), true), (.classified(.overload()), true), (.timedOut, false)])
    func answerIsCharged(report: FailureReport, isCharged: Bool) {
        var bench = CoreBench()
        let job = bench.submit()
        bench.keep(0, job)
        _ = cut(&bench, job, at: Self.step, report)
        #expect(bench.failures(job).map { $0.hasSuffix("charged") } == [isCharged])
    }

    @Test func errorThatMayNotBeRepeatedEndsTheJob() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.keep(0, job)
        #expect(cut(&bench, job, at: Self.step, .classified(.permanent)) == nil && bench.result(job) == "permanent")
    }

    @Test func lateReportsHaveNoEffect() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.keep(0, job)
        bench.fail(job)
        bench.keep(Self.step, job)
        bench.pass(to: 1)
        bench.keep(Self.step, job, of: 1)
        bench.fail(job)
        #expect(bench.failures(job) == ["unknown, charged", "unknown, charged"])
    }

    @Test func progressCostsNoBudget() {
        var bench = CoreBench()
        let job = bench.submit(.plain.budget(.tokenBucket(capacity: 0)))
        bench.keep(0, job)
        for number in 1...5 { #expect(cut(&bench, job, at: Self.step * Int64(number)) == 1) }
    }
}
