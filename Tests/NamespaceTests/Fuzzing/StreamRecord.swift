import Reachability
import Synchronization

/// A listener that checks every transition against its predecessor.
final class StreamRecord: Sendable {
    private struct State {
        var last: Transition?
        var count = 0
        var losses = 0
        var faults: [String] = []
    }

    private let stream: AsyncStream<Transition>
    private let isRaw: Bool
    private let state = Mutex(State())

    init(_ monitor: ReachabilityMonitor, _ scope: Scope, isRaw: Bool) {
        stream = monitor.transitions(to: scope, raw: isRaw)
        self.isRaw = isRaw
    }

    var last: Transition? { state.withLock(\.last) }
    /// The number of transitions without the baseline.
    var count: Int { state.withLock(\.count) }
    /// The losses that the transitions stand for.
    var losses: Int { state.withLock(\.losses) }
    var faults: [String] { state.withLock(\.faults) }

    /// Reads transitions until the monitor ends.
    func follow(_ beat: AsyncStream<Void>.Continuation) async {
        for await transition in stream where transition.cause.kind != .ended {
            state.withLock { state in
                if let last = state.last {
                    state.count += 1
                    state.losses += transition.losses
                    state.faults += Self.faults(of: transition, after: last, isRaw: isRaw)
                } else if !transition.isBaseline || transition.sequence != 0 || transition.kinds != [] {
                    state.faults.append("the first is no baseline: \(transition)")
                }
                state.last = transition
            }
            beat.yield()
        }
    }

    /// Returns the rules that a transition violates.
    static func faults(of next: Transition, after last: Transition, isRaw: Bool) -> [String] {
        var faults: [String] = []
        func check(_ holds: Bool, _ rule: String) {
            if !holds { faults.append("\(rule): \(text(last)) then \(text(next))") }
        }
        let (before, now) = (last.current.isSatisfied, next.current.isSatisfied)
        check(next.sequence == last.sequence + 1, "sequence numbers have no holes")
        check(
            next.previous.map { Verdict($0).published } == Verdict(last.current).published, "the previous path is the published one"
        )
        check(next.at >= last.at, "time never goes back")
        check(next.current.status != .unknown, "a running monitor has a verdict")
        check(next.kinds.contains(.online) == (!before && now), "online means that it became satisfied")
        check(next.kinds.contains(.offline) == (before && !now), "offline means that it became unsatisfied")
        check(!next.kinds.isEmpty, "a transition has kinds")
        check(
            next.kinds.contains(.reestablished) || Verdict(last.current).published != Verdict(next.current).published
                || partialReasons(last.current) != partialReasons(next.current),
            "something changed")
        check(next.epoch >= last.epoch, "epochs never decrease")
        check(!next.kinds.contains(.offline) || next.losses > 0, "an outage is a loss")
        if !isRaw && !last.isBaseline && next.kinds.isDisjoint(with: [.online, .offline]) {
            check(last.at.duration(to: next.at) >= .milliseconds(250), "a damped stream has four lines a second")
        }
        // While losses are held back, several epochs may pass between two published transitions.
        guard isRaw else { return faults }
        check(next.epoch - last.epoch <= 1, "epochs increase by one")
        if !before && now { check(next.epoch == last.epoch + 1, "becoming satisfied starts an epoch") }
        if before && !now { check(next.epoch == last.epoch, "becoming unsatisfied starts no epoch") }
        return faults
    }

    /// Returns for each family why some destinations fail, if some do.
    private static func partialReasons(_ path: NetworkPath) -> [OfflineReason?] {
        [path.ipv4.partialReason, path.ipv6.partialReason]
    }

    private static func text(_ transition: Transition) -> String {
        "[#\(transition.sequence) epoch \(transition.epoch) \(transition.kinds.names) \(Verdict(transition.current)), "
            + "because \(transition.cause)]"
    }
}
