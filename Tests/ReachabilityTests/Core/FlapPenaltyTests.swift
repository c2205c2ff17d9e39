import Reachability
import Testing

@Suite struct SteadinessTests {
    private func steadiness(_ edges: Double...) -> Steadiness {
        var steadiness = Steadiness()
        for edge in edges { steadiness.noteEdge(at: .seconds(edge)) }
        return steadiness
    }

    @Test func sixEdgesAreUnsteady() {
        #expect(steadiness(0, 1, 2, 3, 4).steadyAt == nil)
        #expect(steadiness(0, 1, 2, 3, 4, 5).steadyAt == .seconds(8))
    }

    @Test func onlyEdgesWithinThirtySecondsCount() {
        #expect(steadiness(0, 10, 15, 20, 25, 30).steadyAt == .seconds(33))
        #expect(steadiness(0, 10, 15, 20, 25, 30.001).steadyAt == nil)
        #expect(steadiness(0, 7, 14, 21, 28, 35, 42, 49).steadyAt == nil)
    }

    @Test func anotherEdgeRestartsThePause() {
        // The last six came within 32 s.
        #expect(steadiness(0, 0, 27, 28, 29, 30, 32).steadyAt == .seconds(35))
        #expect(steadiness(0, 0, 27, 28, 29, 30, 33).steadyAt == nil, "it was steady at 33")
    }

    @Test func timeEndsUnsteadiness() {
        var flapping = steadiness(0, 0, 0, 0, 0, 0)
        flapping.advance(to: .milliseconds(2999))
        #expect(flapping.steadyAt == .seconds(3))
        flapping.advance(to: .seconds(3))
        #expect(flapping.steadyAt == nil)
    }
}

@Suite struct FlapPenaltyTests {
    @Test func penaltyHalvesEveryFifteenSeconds() {
        var penalty = FlapPenalty()
        #expect(penalty.level(at: .seconds(5)) == 0)
        penalty.addLoss(at: .seconds(100))
        #expect(penalty.level(at: .seconds(100)) == 1)
        #expect(abs(penalty.level(at: .seconds(115)) - 0.5) < 1e-6)
        #expect(abs(penalty.level(at: .milliseconds(107_500)) - 0.707_106_78) < 1e-6)
        #expect(abs(penalty.level(at: .seconds(145)) - 0.125) < 1e-6)
        penalty.addLoss(at: .seconds(115))
        #expect(abs(penalty.level(at: .seconds(115)) - 1.5) < 1e-6)
    }

    @Test func extremeTimesAreHarmless() {
        var penalty = FlapPenalty()
        penalty.addLoss(at: .seconds(100))
        #expect(penalty.level(at: .zero) == 1)
        #expect(penalty.level(at: .longest) == 0)
        #expect(penalty.level(at: Duration(attoseconds: .min)) == 1)
    }

    @Test func durationsSaturate() {
        #expect(Duration.longest.saturatingAdd(.seconds(1)) == .longest)
        #expect(Duration(attoseconds: .min).saturatingAdd(.seconds(-1)) == Duration(attoseconds: .min))
        #expect(Duration(attoseconds: .min).saturatingSubtract(.seconds(1)) == Duration(attoseconds: .min))
        #expect(Duration.longest.saturatingSubtract(.seconds(-1)) == .longest)
        #expect(Duration.seconds(3).saturatingSubtract(.seconds(1)) == .seconds(2))
    }
}
