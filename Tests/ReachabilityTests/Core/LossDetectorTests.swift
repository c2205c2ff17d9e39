import Reachability
import Testing

@Suite struct LossDetectorTests {
    private var detector = LossDetector()

    @Test mutating func quietSocketHasNoLoss() {
        for hasHeard in [false, true, true, false] {
            #expect(detector.note(.init(drops: 0, hasHeard: hasHeard)) == (.nothing, 0))
        }
    }

    @Test mutating func dropsAreALossWithoutAnError() {
        #expect(detector.note(.init(drops: 3, hasHeard: true)) == (.loss, 3))
        #expect(detector.note(.init(drops: 3, hasHeard: true)) == (.nothing, 0))
        #expect(detector.note(.init(drops: 4, hasHeard: true)) == (.loss, 1))
    }

    @Test mutating func errorIsALossWithoutDrops() {
        #expect(detector.note(.init(drops: 0, hasHeard: true, hasError: true)) == (.loss, 0))
        #expect(detector.note(.init(drops: nil, hasHeard: true, hasError: true)) == (.loss, 0))
        #expect(detector.note(.init(drops: nil, hasHeard: false)) == (.nothing, 0))
    }

    @Test mutating func counterWrapsAround() {
        #expect(detector.note(.init(drops: .max, hasHeard: true)) == (.loss, .max))
        #expect(detector.note(.init(drops: 1, hasHeard: true)) == (.loss, 2))
    }

    @Test mutating func silentDroppingSocketIsReplaced() {
        #expect(detector.note(.init(drops: 5, hasHeard: false)) == (.silentDrops, 5))
        #expect(detector.note(.init(drops: 5, hasHeard: false)) == (.reopen, 0))
        detector.noteReopened()
        #expect(detector.note(.init(drops: 0, hasHeard: false)) == (.nothing, 0))
        #expect(detector.note(.init(drops: 2, hasHeard: true)) == (.loss, 2))
    }

    @Test mutating func lateReadDropsAreALoss() {
        #expect(detector.note(.init(drops: 5, hasHeard: false)) == (.silentDrops, 5))
        #expect(detector.note(.init(drops: 5, hasHeard: true)) == (.loss, 0))
        #expect(detector.note(.init(drops: 5, hasHeard: false)) == (.nothing, 0))
    }

    @Test mutating func failedReplacementIsRepeated() {
        #expect(detector.note(.init(drops: 5, hasHeard: false)).finding == .silentDrops)
        #expect(detector.note(.init(drops: 5, hasHeard: false)).finding == .reopen)
        #expect(detector.note(.init(drops: 6, hasHeard: false)).finding == .silentDrops)
        #expect(detector.note(.init(drops: 6, hasHeard: false)).finding == .reopen)
    }

    @Test mutating func everyThirdFailedDumpReplacesTheSocket() {
        var highest = 0
        for failures in [1, 2, 3, 3, 4, 5, 6, 7, 0, 1, 2, 3] {
            let finding = detector.note(.init(drops: 0, hasHeard: false, failedDumps: failures)).finding
            let isNew = failures % 3 == 0 && failures > highest
            highest = failures == 0 ? 0 : max(highest, failures)
            #expect(finding == (isNew ? .reopen : .nothing), "\(failures)")
        }
    }

    @Test mutating func newSeriesOfFailuresCountsFromItsStart() {
        #expect(detector.note(.init(drops: 0, hasHeard: false, failedDumps: 5)).finding == .reopen)
        // Success and two failures between two readings.
        #expect(detector.note(.init(drops: 0, hasHeard: false, failedDumps: 2)).finding == .nothing)
        #expect(detector.note(.init(drops: 0, hasHeard: false, failedDumps: 3)).finding == .reopen)
    }
}
