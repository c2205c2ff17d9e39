import Reachability
import Testing

@Suite struct SteadinessTests {
    private func steadiness(_ edges: Double...) -> Steadiness {
        var steadiness = Steadiness()
        for edge in edges { steadiness.noteEdge(at: .seconds(edge)) }
        return steadiness
    }

    @Test func fiveEdgesAreNotTooMany() {
        #expect(steadiness(0, 1, 2, 3, 4).steadyAt == nil)
        #expect(steadiness(0, 1, 2, 3, 4, 5).steadyAt == .seconds(8))
    }

    @Test func onlyEdgesOfThirtySecondsCount() {
        #expect(steadiness(0, 10, 15, 20, 25, 30).steadyAt == .seconds(33))
        #expect(steadiness(0, 10, 15, 20, 25, 30.001).steadyAt == nil)
        #expect(steadiness(0, 7, 14, 21, 28, 35, 42, 49).steadyAt == nil)
    }

    @Test func anotherEdgeBeforeItIsSteadyStartsThePauseAgain() {
        // The last six came within 32 s.
        #expect(steadiness(0, 0, 27, 28, 29, 30, 32).steadyAt == .seconds(35))
        #expect(steadiness(0, 0, 27, 28, 29, 30, 33).steadyAt == nil, "it was steady at 33")
    }

    @Test func timeMakesItSteady() {
        var flapping = steadiness(0, 0, 0, 0, 0, 0)
        flapping.advance(to: .milliseconds(2999))
        #expect(flapping.steadyAt == .seconds(3))
        flapping.advance(to: .seconds(3))
        #expect(flapping.steadyAt == nil)
    }
}
