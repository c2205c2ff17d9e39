@testable import ReachableRetry

/// A breadth-first search of all states of a core that the steps of a setting can reach.
struct CoreExploration {
    /// The step that led to a state.
    private struct Origin {
        var state: Int32
        var step: CoreWorld.Step
    }

    /// The result.
    struct Outcome {
        var states: Int
        var steps: Int
        /// The number of steps within which all states are known.
        var depth: Int
        /// True if there are no further states.
        var isComplete: Bool
        /// The number of states without explored steps.
        var unexplored = 0
        /// The violated invariant, and the shortest path to it.
        var fault: String?
    }

    /// The limit of steps until all jobs have ended; enough for three jobs.
    private static let maxStepsToTheEnd = 100

    private let start: CoreWorld
    private var origins: [Origin] = []
    private var known: Set<CoreFingerprint> = []
    /// The states from which all jobs are known to end.
    private var live: Set<CoreFingerprint> = []
    private var steps = 0
    private var depth = 0

    static func explore(_ setting: CoreWorld.Setting, limit: Int) -> Outcome {
        var exploration = CoreExploration(setting)
        return exploration.explore(limit: limit)
    }

    private init(_ setting: CoreWorld.Setting) { start = CoreWorld(setting) }

    private mutating func explore(limit: Int) -> Outcome {
        var level: [(id: Int32, world: CoreWorld)] = [(-1, start)]
        known.insert(CoreFingerprint(start))
        while !level.isEmpty {
            var next: [(id: Int32, world: CoreWorld)] = []
            for (place, (id, world)) in level.enumerated() {
                for step in world.steps() {
                    steps += 1
                    var reached = world
                    do {
                        try reached.play(step)
                        let fingerprint = CoreFingerprint(reached)
                        guard known.insert(fingerprint).inserted else { continue }
                        origins.append(Origin(state: id, step: step))
                        next.append((Int32(origins.count - 1), reached))
                        try checkEnd(reached, fingerprint)
                    } catch {
                        let path = (path(to: id) + [step]).map { "\($0)" }.joined(separator: "\n")
                        return outcome(isComplete: false, fault: "\(error.text)\nafter:\n\(path)")
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

    private func path(to id: Int32) -> [CoreWorld.Step] {
        var path: [CoreWorld.Step] = []
        var id = id
        while id >= 0 {
            path.append(origins[Int(id)].step)
            id = origins[Int(id)].state
        }
        return path.reversed()
    }

    /// Checks that all jobs end if every attempt succeeds from here on.
    private mutating func checkEnd(_ world: CoreWorld, _ fingerprint: CoreFingerprint) throws(CoreWorld.Fault) {
        var (world, fingerprint) = (world, fingerprint)
        var seen: [CoreFingerprint] = []
        var path: [CoreWorld.Step] = []
        while !live.contains(fingerprint) {
            seen.append(fingerprint)
            do {
                guard let step = try world.stepTowardsTheEnd() else { break }
                path.append(step)
                try world.play(step)
            } catch {
                throw CoreWorld.Fault(
                    text: "\(error.text)\nin the end, when every attempt succeeds:\n\(path.map { "\($0)" }.joined(separator: "\n"))"
                )
            }
            fingerprint = CoreFingerprint(world)
            guard seen.count < Self.maxStepsToTheEnd else { throw CoreWorld.Fault(text: "jobs do not end: \(world.jobs)") }
        }
        live.formUnion(seen)
    }
}
