import ReachableRetry

@testable import ReachableJobs

/// A breadth-first search of all states that workers and their store can reach.
///
/// Turns and attempts take any order. Disturbances are counted, because each adds states without end.
struct QueueExploration {
    /// A step of the world.
    enum Step: Hashable {
        case endTurn(Int)
        case advance(Int, JobTicket, succeeds: Bool)
        case fail(Int, after: Int)
        case setOpen(Int, Bool)
        case setStopped(Int, Bool)
        case crash(Int)
        case reboot
        case cancel(Int)
        case shutDown(Int, drain: Int64)
        /// Seconds pass.
        case pass(Int64)
        case suspend(Int64)
        case stepClock(Double)
    }

    /// A kind of disturbance, and the number of times that it may happen.
    enum Disturbance: Hashable, CaseIterable {
        case failedAttempt, failedTurn, lostNetwork, stop, crash, reboot, cancel, shutDown, time, suspension, clock
    }

    /// A case to explore.
    struct Setting: Sendable {
        var name: String
        var workers = 2
        /// The jobs: serial key and earlier crashes.
        var jobs: [(key: String?, crashes: Int)] = [(nil, 0), ("a", 0), ("a", 0)]
        var disturbances: [Disturbance: Int]

    }

    /// The result.
    struct Outcome {
        var states = 0
        var steps = 0
        var depth = 0
        /// The number of states whose steps were not taken.
        var unexplored = 0
        /// The broken promise, and the shortest path to it.
        var fault: String?
    }

    private struct Node {
        var world: QueueWorld
        var left: [Disturbance: Int]
        var origin: Int32
    }

    private struct Fingerprint: Hashable {
        var first: Int
        var second: Int
    }

    private var known: Set<Fingerprint> = []
    /// The states from which everything is known to end well.
    private var live: Set<Fingerprint> = []
    private var origins: [(state: Int32, step: Step)] = []
    private var outcome = Outcome()

    static func explore(_ setting: Setting, limit: Int) throws -> Outcome {
        var exploration = QueueExploration()
        return try exploration.explore(setting, limit: limit)
    }

    private mutating func explore(_ setting: Setting, limit: Int) throws -> Outcome {
        var world = QueueWorld(workers: setting.workers, seed: 1, hasTrail: false)
        for job in setting.jobs { try world.push(serialKey: job.key, crashes: job.crashes) }
        for number in 0..<setting.workers { try world.begin(number) }
        var level = [Node(world: world, left: setting.disturbances, origin: -1)]
        known.insert(fingerprint(level[0]))
        while !level.isEmpty {
            var next: [Node] = []
            for (place, node) in level.enumerated() {
                for step in steps(from: node) {
                    outcome.steps += 1
                    var reached = node
                    do {
                        try play(step, in: &reached)
                        guard known.insert(fingerprint(reached)).inserted else { continue }
                        origins.append((node.origin, step))
                        reached.origin = Int32(origins.count - 1)
                        next.append(reached)
                        try checkEnd(reached)
                    } catch {
                        let path = (path(to: node.origin) + [step]).map { "\($0)" }.joined(separator: "\n")
                        outcome.fault = "\(error)\nafter:\n\(path)"
                        return outcome
                    }
                }
                outcome.states = known.count
                if known.count >= limit {
                    outcome.unexplored = level.count - place - 1 + next.count
                    return outcome
                }
            }
            outcome.depth += 1
            level = next
        }
        return outcome
    }

    private func path(to state: Int32) -> [Step] {
        var path: [Step] = []
        var state = state
        while state >= 0 {
            path.append(origins[Int(state)].step)
            state = origins[Int(state)].state
        }
        return path.reversed()
    }

    private func fingerprint(_ node: Node) -> Fingerprint {
        func hash(_ salt: Int) -> Int {
            var hasher = Hasher()
            hasher.combine(salt)
            node.world.hash(into: &hasher)
            hasher.combine(node.left)
            return hasher.finalize()
        }
        return Fingerprint(first: hash(0), second: hash(1))
    }

    // MARK: - Steps

    private func steps(from node: Node) -> [Step] {
        let world = node.world
        var steps: [Step] = []
        func may(_ disturbance: Disturbance) -> Bool { node.left[disturbance, default: 0] > 0 }
        for (number, worker) in world.workers.enumerated() {
            if worker.isStopped {
                steps.append(.setStopped(number, false))
                if may(.crash) { steps.append(.crash(number)) }
                continue
            }
            if worker.turn != nil {
                steps.append(.endTurn(number))
                if may(.failedTurn) { for parts in 0..<3 { steps.append(.fail(number, after: parts)) } }
            }
            for (ticket, task) in worker.tasks.sorted(by: { $0.key.claim < $1.key.claim }) {
                switch task.stage {
                case .waiting where task.isCancelled || worker.isOpen: steps.append(.advance(number, ticket, succeeds: true))
                case .running:
                    steps.append(.advance(number, ticket, succeeds: true))
                    if may(.failedAttempt), !task.isCancelled { steps.append(.advance(number, ticket, succeeds: false)) }
                case .waiting, .asking: break
                }
            }
            if !worker.isOpen { steps.append(.setOpen(number, true)) }
            if worker.isOpen, may(.lostNetwork) { steps.append(.setOpen(number, false)) }
            if may(.stop) { steps.append(.setStopped(number, true)) }
            if may(.crash) { steps.append(.crash(number)) }
            if may(.shutDown), !worker.isShuttingDown {
                for drain in [0, 3] { steps.append(.shutDown(number, drain: Int64(drain))) }
            }
        }
        if may(.reboot) { steps.append(.reboot) }
        if may(.cancel) { for number in world.ids.indices { steps.append(.cancel(number)) } }
        if may(.time) { for seconds in [3, 12, 31] { steps.append(.pass(Int64(seconds))) } }
        if may(.suspension) { steps.append(.suspend(25)) }
        if may(.clock) { for seconds in [-1e9, 1e9] { steps.append(.stepClock(seconds)) } }
        return steps
    }

    private func play(_ step: Step, in node: inout Node) throws {
        func spend(_ disturbance: Disturbance) { node.left[disturbance, default: 0] -= 1 }
        switch step {
        case .endTurn(let number): try node.world.endTurn(of: number)
        case .advance(let number, let ticket, let succeeds):
            if !succeeds { spend(.failedAttempt) }
            try node.world.step(ticket, of: number, succeeds: succeeds)
        case .fail(let number, let parts):
            spend(.failedTurn)
            try node.world.endTurn(of: number, failingAfter: parts)
        case .setOpen(let number, let isOpen):
            if !isOpen { spend(.lostNetwork) }
            try node.world.setOpen(isOpen, of: number)
        case .setStopped(let number, let isStopped):
            if isStopped { spend(.stop) }
            try node.world.setStopped(isStopped, of: number)
        case .crash(let number):
            spend(.crash)
            try node.world.crash(number)
        case .reboot:
            spend(.reboot)
            try node.world.crash(0, reboots: true)
        case .cancel(let number):
            spend(.cancel)
            try node.world.cancel(number)
        case .shutDown(let number, let drain):
            spend(.shutDown)
            try node.world.shutDown(number, drain: drain)
        case .pass(let seconds):
            spend(.time)
            try node.world.advance(by: seconds)
        case .suspend(let seconds):
            spend(.suspension)
            try node.world.suspend(for: seconds)
        case .stepClock(let seconds):
            spend(.clock)
            node.world.stepClock(by: seconds)
        }
    }

    /// Checks that everything ends well without further disturbances.
    private mutating func checkEnd(_ node: Node) throws {
        var node = node
        node.left = [:]
        var seen: [Fingerprint] = []
        while true {
            let fingerprint = fingerprint(node)
            if live.contains(fingerprint) { break }
            seen.append(fingerprint)
            guard try node.world.stepTowardsTheEnd(), seen.count < 500 else {
                try node.world.checkEnd()
                break
            }
        }
        live.formUnion(seen)
    }
}
