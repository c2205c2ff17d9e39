import Reachability
import Testing

@Suite struct TransitionReducerTests {
    private let cause = Cause(.linkDown, "cable0 lost carrier")

    /// A reducer that has told its baseline.
    private func reducer(grace: Duration = .milliseconds(250), from path: NetworkPath = .online()) -> TransitionReducer {
        var reducer = TransitionReducer(lossGrace: grace)
        _ = reduce(&reducer, path, at: .zero)
        return reducer
    }

    private func reduce(
        _ reducer: inout TransitionReducer, _ path: NetworkPath, at now: Duration, blinked: Bool = false, resumed: Bool = false,
        resynced: Bool = false, cause: Cause? = nil
    ) -> TransitionReducer.Publication? {
        reducer.reduce(path, blinked: blinked, resumed: resumed, resynced: resynced, at: now, cause: cause ?? self.cause)
    }

    @Test func theFirstPathIsTheBaselineAndNoTransition() {
        let reducer = reducer()
        #expect(reducer.published == .online() && reducer.sequence == 0)
    }

    @Test func aLossIsHeldBackForItsGraceAndKeepsItsCause() throws {
        var reducer = reducer()
        #expect(reduce(&reducer, .offline(), at: .seconds(1)) == nil)
        #expect(reducer.deadline == .milliseconds(1250))
        #expect(reduce(&reducer, .offline(.noAddress), at: .milliseconds(1249), cause: Cause(.audit, "later")) == nil)
        let publication = try #require(
            reduce(&reducer, .offline(.noAddress), at: .milliseconds(1250), cause: Cause(.audit, "later")))
        #expect(publication.kinds == .offline && publication.cause == cause && publication.sequence == 1)
        #expect(publication.previous == .online() && publication.current == .offline(.noAddress))
        #expect(reducer.deadline == nil)
    }

    @Test func aLossThatEndsWithinItsGraceIsAReestablishment() throws {
        var reducer = reducer()
        _ = reduce(&reducer, .offline(), at: .seconds(1))
        let publication = try #require(reduce(&reducer, .online(), at: .milliseconds(1100)))
        #expect(publication.kinds == .reestablished)
        _ = reduce(&reducer, .offline(), at: .seconds(2))
        let moved = try #require(reduce(&reducer, .online("cable1", index: 3, source: "192.0.2.11"), at: .milliseconds(2100)))
        #expect(moved.kinds == [.reestablished, .interfaceChanged, .sourceChanged] && moved.sequence == 2)
    }

    @Test func aFindingIsToldOnceAndOnlyOfAPathThatIsThere() {
        var reducer = reducer()
        let publication = reducer.revalidate(.validated, cause)
        #expect(publication?.kinds == .validationChanged && publication?.sequence == 1)
        #expect(publication?.previous?.validation == nil && publication?.current.validation == .validated)
        let repeated = reducer.revalidate(.validated, cause)
        _ = reduce(&reducer, .offline(), at: .seconds(1))
        let held = reducer.revalidate(.captivePortal(nil), cause)
        #expect(reduce(&reducer, .offline(), at: .seconds(2))?.kinds == .offline)
        let offline = reducer.revalidate(.captivePortal(nil), cause)
        #expect(repeated == nil && held == nil && offline == nil && reducer.sequence == 2)
    }

    @Test func withoutGraceALossIsToldAtOnce() {
        var reducer = reducer(grace: .zero)
        #expect(reduce(&reducer, .offline(), at: .zero)?.kinds == .offline)
        #expect(reduce(&reducer, .online(), at: .zero)?.kinds == .online)
    }

    @Test(arguments: [Duration.seconds(-1), .longest, Duration(attoseconds: .min)])
    func anyGraceIsAccepted(grace: Duration) {
        var reducer = reducer(grace: grace)
        let publication = reduce(&reducer, .offline(), at: .seconds(1))
        #expect((publication != nil) == (grace <= .zero))
    }

    @Test func becomingSatisfiedIsNeverHeldBack() {
        var reducer = reducer(from: .offline())
        #expect(reduce(&reducer, .online(), at: .zero)?.kinds == .online)
    }

    @Test func changesWhileSatisfiedGoOutAtOnce() {
        let cases: [(NetworkPath, Transition.Kinds)] = [
            (.online(ipv6: true), .familyGained), (.online(gateway: "192.0.2.2"), .gatewayChanged),
            (.online(source: "192.0.2.11"), .sourceChanged), (.online("cable1", index: 3), .interfaceChanged),
            (.online("renamed0", index: 2), .interfaceChanged),
        ]
        for (path, kinds) in cases {
            var reducer = reducer()
            #expect(reduce(&reducer, path, at: .zero)?.kinds == kinds)
        }
        var both = reducer(from: .online(ipv6: true))
        #expect(reduce(&both, .online(), at: .zero)?.kinds == .familyLost)
    }

    @Test func whatIsNotWorthTellingIsStored() {
        var reducer = reducer(from: .online(metric: 100))
        #expect(reduce(&reducer, .online(metric: 50), at: .zero) == nil)
        #expect(reducer.published == .online(metric: 50) && reducer.sequence == 0)
    }

    @Test func anotherReasonIsToldWhileUnsatisfied() {
        var reducer = reducer(from: .offline(.noCarrier))
        #expect(reduce(&reducer, .offline(.noCarrier), at: .zero) == nil)
        #expect(reduce(&reducer, .offline(.noAddress), at: .zero)?.kinds == .reasonChanged)
    }

    @Test func aBlinkIsAReestablishment() {
        var reducer = reducer()
        #expect(reduce(&reducer, .online(), at: .zero, blinked: true)?.kinds == .reestablished)
    }

    @Test func aSuspensionIsToldEvenIfNothingChanged() {
        var reducer = reducer()
        #expect(reduce(&reducer, .online(), at: .zero, resumed: true)?.kinds == .resumed)
        #expect(reduce(&reducer, .online(), at: .zero) == nil)
        var offline = self.reducer(from: .offline())
        #expect(reduce(&offline, .offline(), at: .zero, resumed: true)?.kinds == .resumed)
    }

    @Test func aSuspensionDuringAHeldLossIsToldWithIt() {
        var reducer = reducer()
        _ = reduce(&reducer, .offline(), at: .zero)
        #expect(reduce(&reducer, .offline(), at: .milliseconds(1), resumed: true) == nil)
        #expect(reduce(&reducer, .offline(), at: .seconds(1))?.kinds == [.offline, .resumed])
    }

    @Test func aResyncIsMarkedOnlyWhereSomethingChanged() {
        var reducer = reducer(grace: .zero)
        #expect(reduce(&reducer, .online(), at: .zero, resynced: true) == nil)
        #expect(reduce(&reducer, .offline(), at: .zero)?.kinds == .offline)
        #expect(reduce(&reducer, .online(), at: .zero, resynced: true)?.kinds == [.online, .resynced])
    }

    @Test func theEndIsToldOnce() {
        var reducer = reducer()
        let end = reducer.end(Cause(.ended, "over"))
        #expect(end?.current == .unknown && end?.kinds == [] && end?.sequence == 1)
        #expect(reducer.end(Cause(.ended, "over")) == nil)
        var fresh = TransitionReducer(lossGrace: .zero)
        #expect(fresh.end(Cause(.ended, "over")) == nil)
    }
}
