@testable import ReachableRetry

/// All states of a core that can be reached by the steps of a setting, the shortest ways first.
struct CoreExploration {
    /// The way to a state.
    private struct Origin {
        var state: Int32
        var step: CoreWorld.Step
    }

    /// The result.
    struct Outcome {
        var states: Int
        var steps: Int
        /// How many steps from the beginning everything is known, and whether there is nothing further.
        var depth: Int
        var isComplete: Bool
        /// The number of states without explored steps.
        var unexplored = 0
        /// The violated invariant, and the shortest way to it.
        var fault: String?
    }

    /// Enough for all that three jobs can still have to do.
    private static let mostStepsToTheEnd = 100

    private let start: CoreWorld
    private var origins: [Origin] = []
    private var known: Set<CoreFingerprint> = []
    /// The states from which all jobs are known to get through.
    private var live: Set<CoreFingerprint> = []
    private var steps = 0
    private var depth = 0

    static func explore(_ setting: CoreWorld.Setting, most: Int) -> Outcome {
        var exploration = CoreExploration(setting)
        return exploration.explore(most: most)
    }

    private init(_ setting: CoreWorld.Setting) { start = CoreWorld(setting) }

    private mutating func explore(most: Int) -> Outcome {
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
                        let way = (path(to: id) + [step]).map { "\($0)" }.joined(separator: "\n")
                        return outcome(isComplete: false, fault: "\(error.text)\nafter:\n\(way)")
                    }
                }
                guard known.count < most else {
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

    /// If all is well from here on, all jobs get through.
    private mutating func checkEnd(_ world: CoreWorld, _ fingerprint: CoreFingerprint) throws(CoreWorld.Fault) {
        var (world, fingerprint) = (world, fingerprint)
        var seen: [CoreFingerprint] = []
        var way: [CoreWorld.Step] = []
        while !live.contains(fingerprint) {
            seen.append(fingerprint)
            do {
                guard let step = try world.stepTowardsTheEnd() else { break }
                way.append(step)
                try world.play(step)
            } catch {
                throw CoreWorld.Fault(
                    text: "\(error.text)\nin the end, when all is well:\n\(way.map { "\($0)" }.joined(separator: "\n"))")
            }
            fingerprint = CoreFingerprint(world)
            guard seen.count < Self.mostStepsToTheEnd else { throw CoreWorld.Fault(text: "they do not end: \(world.jobs)") }
        }
        live.formUnion(seen)
    }
}
