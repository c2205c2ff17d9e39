import Reachability
import Testing

@Suite struct ResyncBackoffTests {
    private var backoff = ResyncBackoff()

    /// Loses events all the time and dumps whenever it is due; returns when that was.
    private mutating func flood(from start: Duration, dumps: Int) -> [Duration] {
        var times: [Duration] = []
        var now = start
        while times.count < dumps {
            backoff.noteLoss(at: now)
            if backoff.isDue(at: now) {
                backoff.noteDump(at: now)
                times.append(now)
            }
            now += .milliseconds(1)
        }
        return times
    }

    @Test mutating func theFirstLossAsksAtOnce() {
        #expect(backoff.due == nil && !backoff.isPending)
        backoff.noteLoss(at: .seconds(100))
        #expect(backoff.isPending && backoff.isDue(at: .seconds(100)))
        backoff.noteDump(at: .seconds(100))
        #expect(backoff.due == nil && !backoff.isDue(at: .seconds(1000)))
    }

    @Test mutating func whileLossesGoOnThePauseDoublesUpToFiveSeconds() {
        let times = flood(from: .seconds(1), dumps: 11)
        let pauses = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(pauses == [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000].map { Duration.milliseconds($0) })
    }

    @Test mutating func aQuietPauseEndsTheFlood() {
        let last = flood(from: .zero, dumps: 5)[4]
        let quiet = last + .milliseconds(800)
        backoff.noteLoss(at: quiet)
        #expect(backoff.due.map { $0 <= quiet } == true)
        backoff.noteDump(at: quiet)
        backoff.noteLoss(at: quiet + .milliseconds(1))
        #expect(backoff.due == quiet + .milliseconds(50))
    }

    @Test mutating func aDumpForAnotherReasonServesAsWell() {
        backoff.noteDump(at: .zero)
        backoff.noteLoss(at: .milliseconds(1))
        #expect(backoff.isDue(at: .milliseconds(1)))
        backoff.noteDump(at: .milliseconds(1))
        backoff.noteLoss(at: .milliseconds(2))
        #expect(backoff.due == .milliseconds(51))
        backoff.noteDump(at: .milliseconds(10))
        #expect(!backoff.isPending)
        backoff.noteLoss(at: .milliseconds(11))
        #expect(backoff.due == .milliseconds(110))
    }

    @Test mutating func timeEndsWithoutATrap() {
        backoff.noteLoss(at: .longest)
        backoff.noteDump(at: .longest)
        backoff.noteLoss(at: .longest)
        #expect(backoff.due == .longest)
    }
}
