import Reachability
import Testing

@Suite struct TransitionReducerTests {
    private let cause = Cause(.linkDown, "cable0 lost carrier")
    private let stamp = TransitionReducer.Stamp(at: .zero)

    /// A reducer with a baseline.
    private func reducer(grace: Duration = .milliseconds(250), from path: NetworkPath = .online()) -> TransitionReducer {
        var reducer = TransitionReducer(lossGrace: grace)
        _ = reduce(&reducer, path, at: .zero)
        return reducer
    }

    private func reduce(
        _ reducer: inout TransitionReducer, _ path: NetworkPath, at now: Duration, blinked: Bool = false, resumed: Bool = false,
        resynced: Bool = false, cause: Cause? = nil
    ) -> Transition? {
        let change = ScopeChange(blinked: blinked, resumed: resumed)
        let stamp = TransitionReducer.Stamp(at: BootInstant(sinceBoot: now))
        return reducer.reduce(path, change, resynced: resynced, stamp, cause: cause ?? self.cause)
    }

    @Test func firstPathIsTheBaseline() {
        let reducer = reducer()
        #expect(reducer.published == .online() && reducer.sequence == 0)
    }

    @Test func lossIsHeldForItsGraceWithItsCause() throws {
        var reducer = reducer()
        #expect(reduce(&reducer, .offline(), at: .seconds(1)) == nil)
        #expect(reducer.deadline == .milliseconds(1250))
        #expect(reduce(&reducer, .offline(.noAddress), at: .milliseconds(1249), cause: Cause(.audit, "later")) == nil)
        let transition = try #require(
            reduce(&reducer, .offline(.noAddress), at: .milliseconds(1250), cause: Cause(.audit, "later")))
        #expect(transition.kinds == .offline && transition.cause == cause && transition.sequence == 1)
        #expect(transition.previous == .online() && transition.current == .offline(.noAddress))
        #expect(reducer.deadline == nil)
    }

    @Test func shortLossIsAReestablishment() throws {
        var reducer = reducer()
        _ = reduce(&reducer, .offline(), at: .seconds(1))
        let transition = try #require(reduce(&reducer, .online(), at: .milliseconds(1100)))
        #expect(transition.kinds == .reestablished)
        _ = reduce(&reducer, .offline(), at: .seconds(2))
        let moved = try #require(reduce(&reducer, .online("cable1", index: 3, source: "192.0.2.11"), at: .milliseconds(2100)))
        #expect(moved.kinds == [.reestablished, .interfaceChanged, .sourceChanged] && moved.sequence == 2)
    }

    @Test func validationIsPublishedOnceForASatisfiedPath() {
        var reducer = reducer()
        let transition = reducer.revalidate(.validated, stamp, cause)
        #expect(transition?.kinds == .validationChanged && transition?.sequence == 1)
        #expect(transition?.previous?.validation == nil && transition?.current.validation == .validated)
        let repeated = reducer.revalidate(.validated, stamp, cause)
        _ = reduce(&reducer, .offline(), at: .seconds(1))
        let held = reducer.revalidate(.captivePortal(nil), stamp, cause)
        #expect(reduce(&reducer, .offline(), at: .seconds(2))?.kinds == .offline)
        let offline = reducer.revalidate(.captivePortal(nil), stamp, cause)
        #expect(repeated == nil && held == nil && offline == nil && reducer.sequence == 2)
    }

    @Test func lossWithoutGraceIsPublishedAtOnce() {
        var reducer = reducer(grace: .zero)
        #expect(reduce(&reducer, .offline(), at: .zero)?.kinds == .offline)
        #expect(reduce(&reducer, .online(), at: .zero)?.kinds == .online)
    }

    @Test(arguments: [Duration.seconds(-1), .longest, Duration(attoseconds: .min)])
    func anyGraceIsAccepted(grace: Duration) {
        var reducer = reducer(grace: grace)
        let transition = reduce(&reducer, .offline(), at: .seconds(1))
        #expect((transition != nil) == (grace <= .zero))
    }

    @Test func becomingSatisfiedIsNeverHeld() {
        var reducer = reducer(from: .offline())
        #expect(reduce(&reducer, .online(), at: .zero)?.kinds == .online)
    }

    @Test func changesWhileSatisfiedArePublishedAtOnce() {
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

    @Test func minorChangesAreStored() {
        var reducer = reducer(from: .online(metric: 100))
        #expect(reduce(&reducer, .online(metric: 50), at: .zero) == nil)
        #expect(reducer.published == .online(metric: 50) && reducer.sequence == 0)
    }

    @Test func otherReasonIsPublishedWhileUnsatisfied() {
        var reducer = reducer(from: .offline(.noCarrier))
        #expect(reduce(&reducer, .offline(.noCarrier), at: .zero) == nil)
        #expect(reduce(&reducer, .offline(.noAddress), at: .zero)?.kinds == .reasonChanged)
    }

    @Test func blinkIsAReestablishment() {
        var reducer = reducer()
        #expect(reduce(&reducer, .online(), at: .zero, blinked: true)?.kinds == .reestablished)
    }

    @Test func resumeIsPublishedWithoutOtherChanges() {
        var reducer = reducer()
        #expect(reduce(&reducer, .online(), at: .zero, resumed: true)?.kinds == .resumed)
        #expect(reduce(&reducer, .online(), at: .zero) == nil)
        var offline = self.reducer(from: .offline())
        #expect(reduce(&offline, .offline(), at: .zero, resumed: true)?.kinds == .resumed)
    }

    @Test func resumeDuringAHeldLossIsPublishedWithIt() {
        var reducer = reducer()
        _ = reduce(&reducer, .offline(), at: .zero)
        #expect(reduce(&reducer, .offline(), at: .milliseconds(1), resumed: true) == nil)
        #expect(reduce(&reducer, .offline(), at: .seconds(1))?.kinds == [.offline, .resumed])
    }

    @Test func resyncIsMarkedOnlyOnChanges() {
        var reducer = reducer(grace: .zero)
        #expect(reduce(&reducer, .online(), at: .zero, resynced: true) == nil)
        #expect(reduce(&reducer, .offline(), at: .zero)?.kinds == .offline)
        #expect(reduce(&reducer, .online(), at: .zero, resynced: true)?.kinds == [.online, .resynced])
    }

    @Test func endIsPublishedOnce() {
        var reducer = reducer()
        let end = reducer.end(stamp, Cause(.ended, "over"))
        #expect(end?.current == .unknown && end?.kinds == [] && end?.sequence == 1)
        #expect(reducer.end(stamp, Cause(.ended, "over")) == nil)
        var fresh = TransitionReducer(lossGrace: .zero)
        #expect(fresh.end(stamp, Cause(.ended, "over")) == nil)
    }
}
