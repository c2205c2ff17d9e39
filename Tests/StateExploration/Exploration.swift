internal import TestSupport
internal import Testing

/// A state with all that its future depends on.
package protocol ExplorableWorld {
    associatedtype Step
    associatedtype Fingerprint: Hashable

    /// Equal for states with the same future.
    var fingerprint: Fingerprint { get }
    /// Returns the possible next steps.
    func steps() -> [Step]
    /// Takes a step; throws the first violated invariant.
    mutating func play(_ step: Step) throws
    /// The same state, after which nothing goes wrong any more.
    var undisturbed: Self { get }
    /// Returns the next step if nothing goes wrong; `nil` when nothing is left to do.
    func stepTowardsTheEnd() throws -> Step?
    /// Checks a state in which nothing is left to do.
    func checkEnd() throws
}

extension ExplorableWorld {
    package var undisturbed: Self { self }
}

/// A breadth-first search of all states that steps can reach.
///
/// Each state must satisfy the invariants, and must end well if nothing goes wrong any more.
package struct Exploration<World: ExplorableWorld> {
    /// The step that led to a state.
    private struct Origin {
        var state: Int32
        var step: World.Step
    }

    /// The result.
    package struct Outcome {
        package var states: Int
        package var steps: Int
        /// The number of steps within which all states are known.
        package var depth: Int
        /// True if there are no further states.
        package var isComplete: Bool
        /// The number of states without explored steps.
        package var unexplored = 0
        /// The violated invariant, and the shortest path to it.
        package var fault: String?

        /// The numbers in words.
        package var summary: String {
            let numbers = "\(states) states, \(steps) steps between them"
            guard !isComplete else { return "complete: \(numbers)" }
            let rest = "left out: the successors of \(unexplored) of these states"
            return "\(numbers), complete within \(depth) steps of the start; \(rest)"
        }
    }

    /// The limit of steps until nothing is left to do.
    private static var maxStepsToTheEnd: Int { 500 }

    /// 128 bits of a fingerprint: it may be large, and there may be a million of them.
    ///
    /// That two of a million states have the same is less likely than 1 in 10²⁶.
    private struct Digest: Hashable {
        let (first, second): (Int, Int)

        init(_ fingerprint: World.Fingerprint) {
            var hashers = (Hasher(), Hasher())
            hashers.1.combine(true)
            hashers.0.combine(fingerprint)
            hashers.1.combine(fingerprint)
            (first, second) = (hashers.0.finalize(), hashers.1.finalize())
        }
    }

    private var origins: [Origin] = []
    private var known: Set<Digest> = []
    /// The states that are known to end well.
    private var live: Set<Digest> = []
    private var steps = 0
    private var depth = 0

    /// Explores the states from a start.
    ///
    /// - Parameter limit: The number of states after which it stops.
    package static func explore(_ start: World, limit: Int) -> Outcome {
        var exploration = Exploration()
        return exploration.explore(start, limit: limit)
    }

    private mutating func explore(_ start: World, limit: Int) -> Outcome {
        var level: [(id: Int32, world: World)] = [(-1, start)]
        known.insert(Digest(start.fingerprint))
        while !level.isEmpty {
            var next: [(id: Int32, world: World)] = []
            for (place, (id, world)) in level.enumerated() {
                for step in world.steps() {
                    steps += 1
                    var reached = world
                    do {
                        try reached.play(step)
                        guard known.insert(Digest(reached.fingerprint)).inserted else { continue }
                        origins.append(Origin(state: id, step: step))
                        next.append((Int32(origins.count - 1), reached))
                        try checkEnd(reached.undisturbed)
                    } catch {
                        let path = Self.lines(path(to: id) + [step])
                        return outcome(isComplete: false, fault: "\(error)\nafter:\n\(path)")
                    }
                }
                guard known.count < limit else {
                    return outcome(isComplete: false, unexplored: level.count - place - 1 + next.count)
                }
            }
            depth += 1
            level = next
        }
        return outcome(isComplete: true)
    }

    private func outcome(isComplete: Bool, unexplored: Int = 0, fault: String? = nil) -> Outcome {
        Outcome(
            states: known.count, steps: steps, depth: depth, isComplete: isComplete, unexplored: unexplored, fault: fault)
    }

    private func path(to id: Int32) -> [World.Step] {
        var path: [World.Step] = []
        var id = id
        while id >= 0 {
            path.append(origins[Int(id)].step)
            id = origins[Int(id)].state
        }
        return path.reversed()
    }

    private static func lines(_ steps: [World.Step]) -> String { steps.map { "\($0)" }.joined(separator: "\n") }

    /// A violated invariant on the way to the end.
    private struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    /// Checks that everything ends well from here on.
    private mutating func checkEnd(_ state: World) throws {
        var world = state
        var seen: [Digest] = []
        var path: [World.Step] = []
        do {
            while true {
                let digest = Digest(world.fingerprint)
                if live.contains(digest) { break }
                seen.append(digest)
                guard seen.count < Self.maxStepsToTheEnd, let step = try world.stepTowardsTheEnd() else {
                    try world.checkEnd()
                    break
                }
                path.append(step)
                try world.play(step)
            }
        } catch {
            throw Fault(description: "\(error)\nin the end, when nothing goes wrong:\n\(Self.lines(path))")
        }
        live.formUnion(seen)
    }
}

extension Exploration {
    /// Explores a setting, prints what it found, and checks that no promise was broken.
    ///
    /// A small setting is explored whole. Of others a debug build explores the nearest states, and prints how many it left out.
    /// Environment variables widen that; use them with optimization: `swift test -c release -Xswiftc -enable-testing`.
    ///
    /// - `NAME_WHOLE`: all states of all settings.
    /// - `NAME`, a number: this many states of each.
    package static func check(_ start: World, _ setting: String, isSmall: Bool, variable name: String, nearest: Int) {
        let wanted: String? = variable("\(name)_WHOLE")
        let isWhole = isSmall || wanted != nil
        let limit = isWhole ? .max : variable(name) ?? nearest
        let began = ContinuousClock.now
        let outcome = explore(start, limit: limit)
        print("\(setting): \(outcome.summary), in \(ContinuousClock.now - began)")
        #expect(outcome.fault == nil, "\(outcome.fault ?? "")")
        #expect(outcome.isComplete || !isWhole && outcome.states >= limit)
    }
}
