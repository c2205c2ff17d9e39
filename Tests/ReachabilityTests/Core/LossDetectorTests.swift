import Reachability
import Testing

@Suite struct LossDetectorTests {
    private var detector = LossDetector()

    /// Reads the queue to its end, and compares the counter.
    private mutating func note(
        drops: UInt32?, hasHeard: Bool, hasError: Bool = false, failedDumps: Int = 0
    ) -> (finding: LossDetector.Finding, drops: UInt32) {
        if hasHeard { _ = detector.note(datagrams: 2, isFirst: true) }
        if hasError { detector.noteLossError() }
        return detector.note(.init(drops: drops, failedDumps: failedDumps))
    }

    @Test mutating func loneDatagramsDeferTheCheckOnce() {
        #expect(detector.takeDeferredCheck(at: .zero) == false, "nothing was read")
        #expect(detector.note(datagrams: 1, isFirst: true) == true)
        #expect(detector.takeCheck(hasMore: false) == false)
        #expect(detector.takeDeferredCheck(at: .seconds(1)) == false)
        #expect(detector.deferredCheck == .milliseconds(1010))
        // Another one before that.
        detector.beginReading()
        #expect(detector.note(datagrams: 1, isFirst: true) == true)
        #expect(detector.takeCheck(hasMore: false) == false)
        #expect(detector.takeDeferredCheck(at: .milliseconds(1009)) == false)
        #expect(detector.deferredCheck == .milliseconds(1010))
        #expect(detector.takeDeferredCheck(at: .milliseconds(1010)) == true)
        #expect(detector.deferredCheck == nil)
        #expect(detector.takeDeferredCheck(at: .seconds(2)) == false)
    }

    @Test mutating func severalDatagramsAreCheckedAtOnce() {
        #expect(detector.note(datagrams: 2, isFirst: true) == false)
        #expect(detector.takeCheck(hasMore: true) == false)
        #expect(detector.takeCheck(hasMore: false) == true)
        #expect(detector.note(datagrams: 1, isFirst: false) == false)
        #expect(detector.takeCheck(hasMore: false) == true)
    }

    @Test mutating func nextReadMakesTheDeferredCheck() {
        #expect(detector.note(datagrams: 1, isFirst: true) == true)
        #expect(detector.takeDeferredCheck(at: .zero) == false)
        detector.beginReading()
        #expect(detector.deferredCheck == nil)
        #expect(detector.takeCheck(hasMore: false) == true)
        #expect(detector.note(datagrams: 1, isFirst: true) == true)
        #expect(detector.takeDeferredCheck(at: .seconds(1)) == false)
        #expect(detector.deferredCheck == .milliseconds(1010), "from the first delivery after the check")
    }

    @Test mutating func lossHasTheQueueDrained() {
        let limit = detector.readLimit
        detector.noteTruncation()
        #expect(detector.isLossy && detector.readLimit > limit)
        #expect(detector.note(datagrams: 1, isFirst: true) == false, "no check is deferred")
        #expect(detector.note(.init(drops: 0)) == (.loss, 0))
        #expect(!detector.isLossy && detector.readLimit == limit)
        #expect(detector.noteDeferred(drops: 0) == false)
        #expect(!detector.isLossy)
        #expect(detector.noteDeferred(drops: 2) == true)
        #expect(detector.isLossy)
        #expect(detector.note(datagrams: 2, isFirst: true) == false)
        #expect(detector.note(.init(drops: 2)) == (.loss, 2))
    }

    @Test mutating func quietSocketHasNoLoss() {
        for hasHeard in [false, true, true, false] {
            #expect(note(drops: 0, hasHeard: hasHeard) == (.nothing, 0))
        }
    }

    @Test mutating func dropsAreALossWithoutAnError() {
        #expect(note(drops: 3, hasHeard: true) == (.loss, 3))
        #expect(note(drops: 3, hasHeard: true) == (.nothing, 0))
        #expect(note(drops: 4, hasHeard: true) == (.loss, 1))
    }

    @Test mutating func errorIsALossWithoutDrops() {
        #expect(note(drops: 0, hasHeard: true, hasError: true) == (.loss, 0))
        #expect(note(drops: nil, hasHeard: true, hasError: true) == (.loss, 0))
        #expect(note(drops: nil, hasHeard: false) == (.nothing, 0))
    }

    @Test mutating func dropsOfEarlierReadersAreNoLoss() {
        detector = LossDetector(drops: 7)
        #expect(note(drops: 7, hasHeard: true) == (.nothing, 0))
        #expect(note(drops: 9, hasHeard: true) == (.loss, 2))
        detector.noteReopened()
        #expect(note(drops: 1, hasHeard: true) == (.loss, 1))
    }

    @Test mutating func counterWrapsAround() {
        #expect(note(drops: .max, hasHeard: true) == (.loss, .max))
        #expect(note(drops: 1, hasHeard: true) == (.loss, 2))
    }

    @Test mutating func silentDroppingSocketIsReplaced() {
        #expect(note(drops: 5, hasHeard: false) == (.silentDrops, 5))
        #expect(note(drops: 5, hasHeard: false) == (.reopen, 0))
        detector.noteReopened()
        #expect(note(drops: 0, hasHeard: false) == (.nothing, 0))
        #expect(note(drops: 2, hasHeard: true) == (.loss, 2))
    }

    @Test mutating func lateReadDropsAreALoss() {
        #expect(note(drops: 5, hasHeard: false) == (.silentDrops, 5))
        #expect(note(drops: 5, hasHeard: true) == (.loss, 0))
        #expect(note(drops: 5, hasHeard: false) == (.nothing, 0))
    }

    @Test mutating func failedReplacementIsRepeated() {
        #expect(note(drops: 5, hasHeard: false).finding == .silentDrops)
        #expect(note(drops: 5, hasHeard: false).finding == .reopen)
        #expect(note(drops: 6, hasHeard: false).finding == .silentDrops)
        #expect(note(drops: 6, hasHeard: false).finding == .reopen)
    }

    @Test mutating func everyThirdFailedDumpReplacesTheSocket() {
        var highest = 0
        for failures in [1, 2, 3, 3, 4, 5, 6, 7, 0, 1, 2, 3] {
            let finding = note(drops: 0, hasHeard: false, failedDumps: failures).finding
            let isNew = failures % 3 == 0 && failures > highest
            highest = failures == 0 ? 0 : max(highest, failures)
            #expect(finding == (isNew ? .reopen : .nothing), "\(failures)")
        }
    }

    @Test mutating func newSeriesOfFailuresCountsFromItsStart() {
        #expect(note(drops: 0, hasHeard: false, failedDumps: 5).finding == .reopen)
        // Success and two failures between two readings.
        #expect(note(drops: 0, hasHeard: false, failedDumps: 2).finding == .nothing)
        #expect(note(drops: 0, hasHeard: false, failedDumps: 3).finding == .reopen)
    }
}
