@testable import ReachableRetry

/// What is alike of two states in which the same may happen next.
///
/// The core holds absolute times, growing numbers and the remains of lists. Here a time is its rank among those that are to come,
/// an epoch how far it is behind, a turn its rank; numbers that only name things are left out, and so is what only stories tell.
struct CoreFingerprint: Hashable {
    private(set) var bytes: [UInt8] = []

    init(_ world: CoreWorld) {
        var writer = Writer(now: world.time)
        writer.write(world)
        bytes = writer.finish()
    }

    private struct Writer {
        let now: BusTime
        var bytes: [UInt8] = []
        /// The times to come, and where their ranks belong.
        private var times: [(place: Int, time: Int64)] = []
        private var turns: [(place: Int, turn: Turn)] = []

        init(now: BusTime) {
            self.now = now
            bytes.reserveCapacity(128)
        }

        mutating func flags(_ flags: Bool...) {
            bytes.append(flags.reduce(0) { $0 << 1 | ($1 ? 1 : 0) })
        }

        mutating func number(_ number: Int) { bytes.append(UInt8(truncatingIfNeeded: min(number, 250))) }

        mutating func time(_ time: BusTime) {
            if time > now, !time.isNever { times.append((bytes.count, time.nanoseconds)) }
            bytes.append(time.isNever ? 255 : 0)
        }

        mutating func turn(_ turn: Turn) {
            if turn != .none { turns.append((bytes.count, turn)) }
            bytes.append(255)
        }

        mutating func finish() -> [UInt8] {
            let moments = Set(times.map(\.time)).sorted()
            for (place, time) in times { bytes[place] = UInt8(1 + (moments.firstIndex(of: time) ?? 0)) }
            let order = Set(turns.map(\.turn)).sorted()
            for (place, turn) in turns { bytes[place] = UInt8(order.firstIndex(of: turn) ?? 0) }
            return bytes
        }

        mutating func write(_ world: CoreWorld) {
            number(world.nudgesLeft)
            number(world.cancellationsLeft)
            for (index, scope) in world.scopes.enumerated() {
                flags(scope.isUp)
                number(scope.epoch)
                // What gates that are still to be made will ask.
                time(world.core.conditions[index].map { $0.edgeAt == .past ? .past : $0.edgeAt + GateState.settlingTime } ?? .past)
            }
            for index in world.setting.jobs.indices { job(index, world) }
            for index in world.places.indices where world.places[index] == index { gate(index, world) }
            time(world.core.gateTimers.earliest)
        }

        private mutating func job(_ index: Int, _ world: CoreWorld) {
            guard index < world.jobs.count else { return bytes.append(254) }
            guard let job = world.core[world.key(index)] else { return bytes.append(253) }
            let scope = world.scopes[world.scope(index)]
            let phase: Int =
                switch job.phase {
                case .waiting: 0
                case .backingOff: 1
                case .running: 2
                case .judged: 3
                }
            let interruption: Int =
                switch job.interruption {
                case nil: 0
                case .cancelled: 1
                case .deadline: 2
                case .timeout: 3
                case .unsatisfied: 4
                }
            number(phase << 4 | interruption)
            flags(
                job.isCancelled, job.hasToldOfWaiting, job.lastWasConnectivity, job.lastWasCharged, job.isInLine,
                job.history.started > 0,
                world.core.timers.isArmed(world.key(index).index), world.jobs[index].isProbe)
            number(Int(job.waitsFor) + 1)
            number(Int(job.history.charged))
            number(Int(job.history.pass.rawValue))
            flags(job.history.round == world.core.gates[job.gate].round)
            for moment in [job.history.soft, job.history.hard, job.history.limit, job.history.interruptAt, job.deadline] {
                time(moment)
            }
            // Before the first attempt nothing was armed.
            if job.history.started > 0 {
                number(world.epoch(index) - Int(job.history.armedEpoch))
                number(scope.epoch - Int(job.history.armedScopeEpoch))
                flags(scope.nudges != Int(job.history.armedNudges))
            }
            turn(job.turn)
            guard let limit = world.setting.jobs[index].variant.waitLimit else { return }
            time(world.core.conditions[Int(job.scope)].map { $0.unchangedSince + .milliseconds(limit) } ?? .past)
        }

        private mutating func gate(_ index: Int, _ world: CoreWorld) {
            guard index < world.jobs.count, let place = place(index, world) else { return bytes.append(254) }
            let gate = world.core.gates[place]
            flags(
                gate.hasCanary, gate.hasUntold, gate.phase == .probing, gate.phase == .ramping,
                world.core.gateTimers.isArmed(place),
                world.gates[index].isProbing)
            number(gate.bypassing)
            number(gate.inFlight)
            number(gate.window)
            number(gate.successes)
            number(gate.goodWidth)
            // From the second on all delays are the same.
            number(min(gate.failures, 2))
            number(min(gate.overloads, ReleaseRules.mostOverloads))
            number(world.setting.jobs.contains { $0.priority == .bulk } ? gate.sinceBulk : 0)
            let scope = world.scopes[world.scope(index)]
            number(gate.successEpoch.map { scope.epoch - Int($0) } ?? 100)
            turn(gate.ready)
            for moment in [gate.retryAt, gate.pauseAt, gate.throttledUntil, gate.spreadUntil, gate.dueAt] { time(moment) }
            for run in gate.countedRuns {
                // Those that have ended are thrown away unseen.
                guard let runner = world.jobs.firstIndex(where: { $0.key == run.key && $0.started == run.attempt }),
                    world.jobs[runner].state == .running
                else { continue }
                number(runner)
                time(run.start + ReleaseRules.longRun)
            }
        }

        /// Gates are kept when their jobs have ended.
        private func place(_ index: Int, _ world: CoreWorld) -> Int32? {
            let name = world.setting.jobs[index]
            return world.core.gates.all(of: ConditionIndex(name.scope)).first {
                world.core.gates.destination($0) == name.destination
            }
        }
    }
}
