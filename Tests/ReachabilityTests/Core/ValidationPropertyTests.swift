import Reachability
import ReachabilityTesting
import Testing

/// The properties of validations under any sequence of network changes.
@Suite(.timeLimit(.minutes(10))) struct ValidationPropertyTests {
    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8] as [UInt64]) func validationRulesHold(seed: UInt64) {
        for script in 0..<200 {
            var world = World(seed: seed &* 1000 &+ UInt64(script))
            for _ in 0..<60 { world.act() }
            world.settle()
            #expect(world.faults.isEmpty, "\(world.generator.seed): \(world.faults)\n\(world.report.joined(separator: "\n"))")
            if !world.faults.isEmpty { return }
        }
    }

    /// A random network, a random validator, and the properties that hold at each moment.
    private struct World {
        /// The state of the network at the start of a validation.
        private struct Running {
            var number: UInt64
            /// The number of earlier changes of the path.
            var path: Int
            var isCancelled = false
        }

        var generator: SeededGenerator
        var report: [String] = []
        var faults: [String] = []
        private var state: ValidationState
        private var now = Duration.zero
        private var level = Condition.State()
        private var isKnown = false
        private var path = 0
        private var running: Running?
        /// The result of a validation that ended before the next batch.
        private var ended: (finding: PathValidation, call: Running)?
        private var lastStart: Duration?
        /// The time since which a request waits for a verdict about the same path.
        private var askedSince: Duration?
        private var condition = Condition.State()
        private let timeout: Duration
        private let isRepeated: Bool

        init(seed: UInt64) {
            generator = SeededGenerator(seed: seed)
            timeout = .milliseconds(Int.random(in: 1...5000, using: &generator))
            isRepeated = Bool.random(using: &generator)
            let longest = Duration.milliseconds(Int.random(in: 0...20_000, using: &generator))
            state = ValidationState(timeout: timeout, longestPause: isRepeated ? longest : nil)
        }

        private mutating func require(_ isSo: Bool, _ fault: String) {
            if !isSo { faults.append("\(now): \(fault)") }
        }

        mutating func act() {
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: batch(changing: Bool.random(using: &generator) ? .lost : .found)
            case 1: batch(changing: .found)
            case 2: batch(changing: .otherWay)
            case 3: ask()
            case 4...5: end()
            default: pass()
            }
        }

        /// The network stays, validations end at once, and time passes: all requests end.
        mutating func settle() {
            batch(changing: .found)
            for _ in 0..<10 {
                if let running {
                    answer(running, .validated)
                } else {
                    now = state.next ?? now
                }
                batch()
            }
            require(state.finding == .validated && state.next == nil && running == nil, "it does not come to rest")
            require(askedSince == nil, "a request has no answer")
        }

        private mutating func ask() {
            report.append("\(now) ask")
            state.request()
            askedSince = askedSince ?? now
            batch()
        }

        private mutating func end() {
            guard let running else { return }
            answer(
                running,
                [.validated, .captivePortal("\(running.path)"), .failed("\(running.path)")].randomElement(using: &generator))
            batch()
        }

        private mutating func answer(_ call: Running, _ finding: PathValidation?) {
            guard let finding else { return }
            report.append("\(now) \(call.number) finds \(finding)")
            state.arrive(call.number, finding)
            running = nil
            ended = (finding, call)
        }

        private mutating func pass() {
            let step = Duration.milliseconds(Int.random(in: 0...1500, using: &generator))
            // Never beyond the requested wake-up, as sources promise.
            now = state.next.map { max(now, min($0, now + step)) } ?? now + step
            batch()
        }

        private enum Change { case lost, found, otherWay }

        private mutating func batch(changing change: Change? = nil) {
            state.advance(to: now)
            if let (finding, call) = ended.take(), state.verdict == finding {
                require(!call.isCancelled && call.path == path, "a result about an earlier path is used")
            }
            switch change {
            case .lost: level.isSatisfied = false
            case .found: (level.isSatisfied, level.epoch) = (true, level.epoch + 1)
            case .otherWay, nil: break
            }
            if change != nil {
                report.append("\(now) \(change.map { "\($0)" } ?? "")")
                isKnown = true
                path += 1
                askedSince = askedSince.map { _ in now }
            }
            if isKnown { state.observe(level, at: now) }
            if let newState = state.takeCondition() { note(newState) }
            if change == .otherWay { state.noteOtherWay(at: now) }
            settleAnswer()
            if let step = state.takeStep(at: now) { perform(step) }
            check()
        }

        private mutating func note(_ newState: Condition.State) {
            let growth = newState.epoch - condition.epoch
            require(growth == 1 || (growth == 0 && !newState.isSatisfied), "the epoch does not count validations")
            condition = newState
        }

        private mutating func settleAnswer() {
            guard let answer = state.takeAnswer() else { return }
            require(askedSince != nil, "an answer without a request")
            if answer == .unsatisfied { require(!level.isSatisfied, "refused although there is a path") }
            if case .found = answer { require(level.isSatisfied && state.finding == state.verdict, "a finding without a path") }
            askedSince = nil
        }

        private mutating func perform(_ step: ValidationState.Step) {
            report.append("\(now) \(step)")
            if step.cancels {
                require(running != nil && running?.isCancelled == false, "nothing to cancel")
                running?.isCancelled = true
            }
            guard let number = step.start else { return }
            require(running == nil, "two at a time")
            require(level.isSatisfied, "started without a path")
            let isSoon = lastStart.map { now < $0 + ValidationState.shortestPause } ?? false
            require(!isSoon || askedSince != nil, "too soon after the one before")
            (running, lastStart) = (Running(number: number, path: path), now)
        }

        private mutating func check() {
            require(condition.isSatisfied == (state.finding == .validated), "the condition differs from the result")
            require(!condition.isSatisfied || level.isSatisfied, "validated without a path")
            if !level.isSatisfied { require(state.finding == nil && state.next == nil, "busy without a path") }
            if level.isSatisfied && isKnown && state.finding == nil { require(state.next != nil, "a path is left alone") }
            if level.isSatisfied && isRepeated && state.finding != .validated {
                require(state.next != nil, "a portal is left alone")
            }
            if let next = state.next { require(next > now, "it does not let time pass") }
            if let askedSince, level.isSatisfied { require(now < askedSince + timeout, "a request waits too long") }
        }
    }
}
