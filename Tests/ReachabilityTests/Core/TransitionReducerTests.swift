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
        resynced: Bool = false, cause: Cause? = nil, isSame: Bool = false
    ) -> Transition? {
        var change = ScopeChange(old: isSame ? path : nil, blinked: blinked, resumed: resumed)
        change.lost = reducer.published?.isSatisfied == true && !path.isSatisfied && !reducer.holdsLoss
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
        #expect(transition.losses == 1 && moved.losses == 1)
    }

    @Test func quickLossesShareATransition() throws {
        var reducer = reducer()
        var published: [Transition] = []
        for flap in 0..<1400 {
            let lostAt = Duration.seconds(1) + .microseconds(flap * 714)
            for (path, now) in [(NetworkPath.offline(), lostAt), (.online(), lostAt + .microseconds(300))] {
                published += [reduce(&reducer, path, at: now)].compactMap(\.self)
            }
        }
        #expect(published.map(\.kinds) == Array(repeating: .reestablished, count: 4))
        #expect(published.reduce(0) { $0 + $1.losses } + reducer.losses == 1400)
        let due = try #require(reducer.deadline)
        let last = try #require(reduce(&reducer, .online(), at: due))
        #expect(last.kinds == .reestablished && last.losses > 300 && reducer.losses == 0 && reducer.deadline == nil)
        #expect(last.at.sinceBoot == published[3].at.sinceBoot + .milliseconds(250))
    }

    @Test func heldTransitionTellsTheLatestStateAndCause() throws {
        var reducer = reducer()
        #expect(reduce(&reducer, .online(gateway: "192.0.2.2"), at: .seconds(1)) != nil)
        let (first, last) = (Cause(.routeRemoved, "first"), Cause(.routeAdded, "last"))
        #expect(reduce(&reducer, .online(gateway: "192.0.2.3"), at: .milliseconds(1010), cause: first) == nil)
        #expect(reduce(&reducer, .online(gateway: "192.0.2.4", ipv6: true), at: .milliseconds(1100), cause: last) == nil)
        #expect(reducer.deadline == .milliseconds(1250) && reducer.published == .online(gateway: "192.0.2.2"))
        let held = try #require(
            reduce(&reducer, .online(gateway: "192.0.2.4", ipv6: true), at: .milliseconds(1250), isSame: true))
        #expect(held.kinds == [.gatewayChanged, .familyGained] && held.cause == last && held.sequence == 2)
        #expect(held.previous == .online(gateway: "192.0.2.2") && held.losses == 0)
    }

    @Test func undoneChangeIsForgotten() {
        var reducer = reducer()
        _ = reduce(&reducer, .online(gateway: "192.0.2.2"), at: .seconds(1))
        #expect(reduce(&reducer, .online(), at: .milliseconds(1010), resynced: true) == nil)
        #expect(reduce(&reducer, .online(gateway: "192.0.2.2"), at: .milliseconds(1020)) == nil && reducer.deadline == nil)
        #expect(reduce(&reducer, .online(gateway: "192.0.2.3"), at: .seconds(2))?.kinds == .gatewayChanged)
    }

    @Test func undoneChangeOfSourceIsAReestablishment() {
        var reducer = reducer()
        func reduce(_ source: String, at now: Int, epoch: UInt64) -> Transition? {
            let stamp = TransitionReducer.Stamp(at: .milliseconds(now), epoch: epoch)
            return reducer.reduce(.online(source: source), ScopeChange(), resynced: false, stamp, cause: cause)
        }
        #expect(reduce("192.0.2.11", at: 1000, epoch: 2)?.kinds == .sourceChanged)
        #expect(reduce("192.0.2.10", at: 1010, epoch: 3) == nil && reduce("192.0.2.11", at: 1020, epoch: 4) == nil)
        let back = reduce("192.0.2.11", at: 1250, epoch: 4)
        #expect(back?.kinds == .reestablished && back?.epoch == 4 && back?.losses == 0)
    }

    @Test func lossWhileAChangeWaitsHasItsWholeGrace() throws {
        var reducer = reducer()
        _ = reduce(&reducer, .online(), at: .seconds(1), blinked: true)
        #expect(reduce(&reducer, .online(gateway: "192.0.2.2"), at: .milliseconds(1010)) == nil)
        #expect(reduce(&reducer, .offline(), at: .milliseconds(1200)) == nil && reducer.deadline == .milliseconds(1450))
        #expect(reduce(&reducer, .offline(), at: .milliseconds(1449)) == nil)
        let offline = try #require(reduce(&reducer, .offline(), at: .milliseconds(1450)))
        #expect(offline.kinds == .offline && offline.losses == 1)
        let online = try #require(reduce(&reducer, .online(), at: .milliseconds(1451)))
        #expect(online.kinds == .online && online.losses == 0)
    }

    @Test func validationWaitsLikeOtherChanges() {
        var reducer = reducer()
        _ = reduce(&reducer, .online(gateway: "192.0.2.2"), at: .seconds(1))
        let soon = TransitionReducer.Stamp(at: .milliseconds(1010))
        let held = reducer.revalidate(.validated, soon, Cause(.validation, "validated"))
        #expect(held == nil && reducer.deadline == .milliseconds(1250) && reducer.published?.validation == nil)
        var path = NetworkPath.online(gateway: "192.0.2.2")
        path.validation = .validated
        let stamp = TransitionReducer.Stamp(at: .milliseconds(1250))
        let transition = reducer.reduce(path, ScopeChange(old: path), resynced: false, stamp, cause: Cause(.audit, "later"))
        #expect(transition?.kinds == .validationChanged && transition?.cause.kind == .validation)
    }

    @Test func rawStreamHoldsNothing() {
        var reducer = TransitionReducer()
        _ = reduce(&reducer, .online(), at: .zero)
        let published = [
            reduce(&reducer, .offline(), at: .zero), reduce(&reducer, .offline(.noAddress), at: .zero),
            reduce(&reducer, .online(), at: .zero), reduce(&reducer, .online(), at: .zero, blinked: true),
            reduce(&reducer, .online(gateway: "192.0.2.2"), at: .zero),
        ]
        #expect(published.map { $0?.kinds } == [.offline, .reasonChanged, .online, .reestablished, .gatewayChanged])
        #expect(published.map { $0?.losses } == [1, 0, 0, 1, 0])
    }

    @Test func validationIsPublishedOnceForASatisfiedPath() {
        var reducer = reducer()
        let transition = reducer.revalidate(.validated, stamp, cause)
        #expect(transition?.kinds == .validationChanged && transition?.sequence == 1)
        #expect(transition?.previous?.validation == nil && transition?.current.validation == .validated)
        let repeated = reducer.revalidate(.validated, stamp, cause)
        #expect(reducer.deadline == nil)
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

    @Test func firstChangesWhileSatisfiedArePublishedAtOnce() {
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
