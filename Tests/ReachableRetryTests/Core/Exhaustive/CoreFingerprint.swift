@testable import ReachableRetry

/// A fingerprint that is equal for states with the same future.
///
/// The core holds absolute times and growing numbers. The fingerprint replaces a time and a queue position by its rank, and an
/// epoch by a flag for "changed since". It does not distinguish equal jobs. It leaves out identifiers, facts that only reports
/// contain, and facts that no decision reads again, such as a scope without jobs.
struct CoreFingerprint: Hashable {
    private(set) var bytes: [UInt8] = []

    init(_ world: CoreWorld) {
        for order in world.jobOrders {
            var writer = Writer(now: world.time, order: order)
            writer.write(world)
            let candidate = writer.finish()
            if bytes.isEmpty || candidate.lexicographicallyPrecedes(bytes) { bytes = candidate }
        }
    }

    private struct Writer {
        let now: BusTime
        /// The order in which jobs are written.
        let order: [Int]
        var bytes: [UInt8] = []
        /// The future times, and the bytes for their ranks.
        private var times: [(place: Int, time: Int64)] = []
        private var positions: [(place: Int, position: QueuePosition)] = []

        init(now: BusTime, order: [Int]) {
            (self.now, self.order) = (now, order)
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

        mutating func position(_ position: QueuePosition) {
            if position != .none { positions.append((bytes.count, position)) }
            bytes.append(255)
        }

        mutating func finish() -> [UInt8] {
            rank(times.sorted { $0.time < $1.time }.map { ($0.place, $0.time) }, from: 1)
            rank(positions.sorted { $0.position < $1.position }.map { ($0.place, $0.position) }, from: 0)
            return bytes
        }

        /// Writes the ranks of sorted values.
        private mutating func rank<Value: Equatable>(_ values: [(place: Int, value: Value)], from first: UInt8) {
            var (rank, last) = (first, values.first?.value)
            for (place, value) in values {
                if value != last { rank += 1 }
                (bytes[place], last) = (rank, value)
            }
        }

        mutating func write(_ world: CoreWorld) {
            number(world.retryNowsLeft)
            number(world.cancellationsLeft)
            for index in world.scopes.indices { scope(index, world) }
            for index in order { job(index, world) }
            for index in world.places.indices where world.places[index] == index { gate(index, world) }
            time(world.core.gateTimers.earliest)
        }

        private mutating func scope(_ index: Int, _ world: CoreWorld) {
            guard world.isOfInterest(scope: index) else { return bytes.append(254) }
            flags(world.scopes[index].isUp, world.scopes[index].isFinished)
            if let epochs = world.setting.epochs { number(epochs - world.scopes[index].epoch) }
            if world.hasCanaries { flags(world.core.conditions[index]?.isProven == true) }
            // Future gates of this scope read the time of its last edge.
            let isGateless = (world.jobs.count..<world.setting.jobs.count).contains { job in
                world.scope(job) == index && !world.gates[world.places[job]].exists
            }
            guard isGateless, world.setting.release != .immediate, let record = world.core.conditions[index] else { return }
            time(record.edgeAt == .past ? .past : record.edgeAt + GateState.settlingTime)
        }

        private mutating func job(_ index: Int, _ world: CoreWorld) {
            guard index < world.jobs.count else { return bytes.append(254) }
            guard let job = world.core[world.key(index)] else { return bytes.append(253) }
            let scope = world.scopes[world.scope(index)]
            let phase: Int =
                switch job.phase {
                case .resting: 0
                case .backingOff: 1
                case .running: 2
                case .queued: 3
                case .waiting: 4
                case .ended: 5
                }
            let interruption: Int =
                switch job.attempt?.interruption {
                case nil: 0
                case .cancelled: 1
                case .deadline: 2
                case .timeout: 3
                case .loss: 4
                }
            number(phase << 4 | interruption)
            let isRunning = job.isRunning
            flags(
                job.attempt?.isCancelled == true, !isRunning && job.history.lastFault == .network,
                !isRunning && job.history.lastWasCharged, job.history.started > 0,
                world.core.timers.isArmed(world.key(index).index), isRunning && world.jobs[index].isProbe)
            number(job.waitsFor.map { Int($0) + 1 } ?? 0)
            number(Int(job.history.charged))
            if let attempt = job.attempt {
                number(Int(attempt.pass.rawValue))
                let gate = world.core.gates[job.gate]
                flags(attempt.round == gate.round, gate.answerEpoch == attempt.scopeEpoch, scope.epoch != attempt.scopeEpoch)
                for moment in [attempt.limit, attempt.interruptAt] { time(moment) }
            }
            if case .queued(_, let limit) = job.phase { time(limit) }
            for moment in [job.history.soft, job.history.hard, job.deadline] { time(moment) }
            for other in order where world.setting.jobs.contains(where: { $0.parent == other || $0.joiners.contains(other) }) {
                let attempt = world.attempt(other)
                flags(attempt.map(world.jobs[index].lenders.contains) ?? false)
                guard isRunning, other < world.jobs.count else { continue }
                flags(job.attempt?.place == .borrowed(from: world.key(other).index))
            }
            // Nothing was armed before the first attempt.
            if job.history.started > 0 {
                flags(world.epoch(index) != job.history.armedEpoch, scope.retryNows != job.history.armedRetryNows)
            }
            position(job.position)
            guard let limit = world.setting.jobs[index].variant.waitLimit else { return }
            time(world.core.conditions[Int(job.scope)].map { $0.unchangedSince + .milliseconds(limit) } ?? .past)
        }

        private mutating func gate(_ index: Int, _ world: CoreWorld) {
            guard world.isOfInterest(gate: index), let place = place(index, world) else { return bytes.append(254) }
            let gate = world.core.gates[place]
            flags(
                gate.hasCanary, gate.isProbing, gate.isRamping,
                world.core.gateTimers.isArmed(place),
                world.gates[index].isProbing)
            number(gate.bypassing)
            number(gate.inFlight)
            number(gate.window)
            if case .ramping(let successes) = gate.phase { number(successes) }
            number(gate.goodWidth)
            // All delays from the second one on are equal.
            number(min(gate.probe?.failures ?? 0, 2))
            flags(gate.isOverloaded)
            number(gate.failed.count)
            for key in gate.failed { number(world.jobs.firstIndex { $0.key == key }.flatMap(order.firstIndex) ?? 251) }
            number(world.setting.jobs.contains { $0.priority == .bulk } ? gate.sinceBulk : 0)
            position(gate.ready?.position ?? .none)
            for moment in [gate.throttledUntil, gate.spreadUntil, gate.canaryAt, gate.dueAt] { time(moment) }
            if let probe = gate.probe { for moment in [probe.retryAt, probe.pauseAt] { time(moment) } }
            for run in gate.countedRuns {
                // The core drops ended runs without reading them.
                guard let runner = world.jobs.firstIndex(where: { $0.key == run.key && $0.started == run.attempt }),
                    world.jobs[runner].state == .running
                else { continue }
                number(order.firstIndex(of: runner) ?? 0)
                time(run.start + ReleaseRules.longRun)
            }
        }

        /// Returns the gate of a job; the core keeps gates after the end of their jobs.
        private func place(_ index: Int, _ world: CoreWorld) -> Int32? {
            let name = world.setting.jobs[index]
            return world.core.gates.all(of: ConditionIndex(name.scope)).first {
                world.core.gates.destination($0) == name.destination
            }
        }
    }
}
