import Reachability
import ReachabilityTesting
import Testing

/// The properties of damped and raw transitions under any sequence of verdicts, checked by their purpose: few lines, no loss of
/// information, no delay of good news.
@Suite(.timeLimit(.minutes(10))) struct TransitionPropertyTests {
    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8] as [UInt64]) func transitionRulesHold(seed: UInt64) {
        for script in 0..<60 {
            var world = World(seed: seed &* 1000 &+ UInt64(script))
            for _ in 0..<300 { world.act() }
            world.settle()
            #expect(world.faults.isEmpty, "\(world.generator.seed): \(world.faults)\n\(world.report.joined(separator: "\n"))")
            if !world.faults.isEmpty { return }
        }
    }

    /// A scope whose path changes at random, and the transitions about it.
    private struct World {
        var generator: SeededGenerator
        var report: [String] = []
        var faults: [String] = []
        private var state: ScopeState
        private let grace: Duration
        /// The longest time between two changes.
        private let pace: Int
        private var now = Duration.seconds(100)
        private var table = InterfaceTable([.cable])
        private var path = NetworkPath.online()
        private var validation: PathValidation?
        /// The time of the last change to unsatisfied.
        private var lostAt: Duration?
        private var losses = 0
        /// The losses that damped transitions have told.
        private var told = 0
        private var damped: [Transition] = []
        private var raw: [Transition] = []
        private var baseline = NetworkPath.unknown

        init(seed: UInt64) {
            generator = SeededGenerator(seed: seed)
            grace = [.milliseconds(250), .milliseconds(400), .milliseconds(20), .zero].randomElement(using: &generator) ?? .zero
            pace = [1, 20, 300].randomElement(using: &generator) ?? 1
            state = ScopeState(lossGrace: grace)
            evaluate()
            baseline = state.level.path ?? .unknown
        }

        private mutating func require(_ isSo: Bool, _ fault: String) {
            if !isSo { faults.append("\(now): \(fault)") }
        }

        private var seen: NetworkPath {
            var seen = state.level.path ?? .unknown
            if seen.isSatisfied { seen.validation = validation }
            return seen
        }

        mutating func act() {
            pass(.microseconds(Int.random(in: 0...pace * 1000, using: &generator)))
            switch Int.random(in: 0..<12, using: &generator) {
            case 0...3: change(to: path.isSatisfied ? .offline() : .online())
            case 4: change(to: .offline([.noCarrier, .noAddress].randomElement(using: &generator) ?? .noCarrier))
            case 5: change(to: .online(gateway: "192.0.2.\(Int.random(in: 1...2, using: &generator))"))
            case 6: change(to: .online(source: "192.0.2.\(Int.random(in: 10...11, using: &generator))"))
            case 7: change(to: .online(metric: 50, ipv6: Bool.random(using: &generator)))
            case 8: blink()
            case 9: evaluate(resumed: true)
            case 10: validate(Bool.random(using: &generator) ? .validated : .captivePortal(nil))
            default: evaluate(resynced: Bool.random(using: &generator))
            }
        }

        /// Lets time pass; what is due is published at its time, without an evaluation.
        private mutating func pass(_ time: Duration) {
            let end = now + time
            while let due = state.deadline, due <= end {
                now = max(now, due)
                // As when the kernel does not answer.
                let transition = state.publishHeld(seen, at: now, wallTime: now)
                note(transition)
                require(state.deadline == nil, "a deadline ends the wait")
                if state.deadline != nil { return }
            }
            now = end
        }

        private mutating func change(to path: NetworkPath) {
            if self.path.isSatisfied && !path.isSatisfied { lostAt = now }
            self.path = path
            evaluate()
        }

        private mutating func blink() {
            var cable = NetworkInterface.cable
            cable.carrierChanges = UInt32(truncatingIfNeeded: losses &+ 1_000_000)
            table = InterfaceTable([cable])
            evaluate()
        }

        private mutating func validate(_ finding: PathValidation) {
            guard path.isSatisfied else { return }
            validation = finding
            let published = state.revalidate(finding, at: now, wallTime: now, Cause(.validation, "validation"))
            if let transition = published.raw { raw.append(transition) }
            note(published.damped)
        }

        private mutating func evaluate(resumed: Bool = false, resynced: Bool = false) {
            let epoch = state.level.epoch
            let change = state.observe(path, table, resumed: resumed, at: now)
            if state.level.epoch != epoch { validation = nil }
            if change.lost || change.blinked { losses += 1 }
            let wasSatisfied = (damped.last?.current ?? baseline).isSatisfied
            let isFirst = change.old == nil
            let published = state.publish(seen, change, resynced: resynced, at: now, wallTime: now) { Cause(.audit, "event") }
            if let transition = published.raw { raw.append(transition) }
            if !isFirst && !wasSatisfied && path.isSatisfied {
                require(published.damped?.kinds.contains(.online) == true, "becoming satisfied goes out at once")
            }
            note(published.damped)
        }

        private mutating func note(_ transition: Transition?) {
            if let transition {
                report.append("\(now) \(transition.kinds.names) \(transition.losses): \(transition)")
                check(transition)
                damped.append(transition)
                told += transition.losses
            }
            let last = damped.last?.current ?? baseline
            let pending = losses - told
            require(pending >= 0, "no loss is counted twice")
            guard last.isSatisfied == seen.isSatisfied, !seen.kinds(since: last).isEmpty || pending > 0 else { return }
            let lastTime = damped.last?.at.sinceBoot
            require(lastTime.map { now < $0 + .milliseconds(250) } ?? false, "what may go out has gone out")
        }

        private mutating func check(_ next: Transition) {
            let last = damped.last
            require(next.at.sinceBoot == now && next.sequence == UInt64(damped.count + 1), "sequences have no holes")
            require(
                next.previous.map { $0.kinds(since: last?.current ?? baseline) } == [], "the previous path is the published one")
            require(next.current == seen, "a transition tells the latest state")
            require(!next.kinds.isEmpty, "a transition has kinds")
            require(next.epoch == state.level.epoch, "a transition has the present epoch")
            let isReestablished = next.current.isSatisfied && next.previous?.isSatisfied == true && next.losses > 0
            require(!isReestablished || next.kinds.contains(.reestablished), "quick losses are a reestablishment")
            if next.kinds.contains(.offline) {
                require(lostAt.map { now - $0 } == grace, "a loss goes out after its grace")
                require(next.losses > 0, "an outage is a loss")
            } else if !next.kinds.contains(.online), let last {
                require(next.at.sinceBoot - last.at.sinceBoot >= .milliseconds(250), "other lines have a distance")
            }
        }

        /// Nothing happens for a while: everything is published.
        mutating func settle() {
            pass(max(grace, .milliseconds(250)))
            let last = damped.last
            require((last?.current ?? baseline).kinds(since: seen).isEmpty, "the last transition tells the state")
            require(state.deadline == nil, "nothing is held after a quiet time")
            require(last.map { $0.epoch == state.level.epoch } ?? (raw.isEmpty || damped.isEmpty), "the last epoch is published")
            require(damped.reduce(0) { $0 + $1.losses } == losses, "damped transitions tell every loss")
            require(raw.reduce(0) { $0 + $1.losses } == losses, "raw transitions tell every loss")
            // Losses without a grace go out at once.
            let bounded: Transition.Kinds = grace < .milliseconds(250) ? [.online, .offline] : .online
            let others = damped.filter { $0.kinds.isDisjoint(with: bounded) }
            for (first, fifth) in zip(others, others.dropFirst(4)) {
                require(fifth.at.sinceBoot - first.at.sinceBoot >= .seconds(1), "a second has four lines, and gains")
            }
        }
    }
}
