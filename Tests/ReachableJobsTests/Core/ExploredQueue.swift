import ReachableRetry
import StateExploration

@testable import ReachableJobs

/// A state of the exploration: workers on their store, and the disturbances that may still happen.
///
/// Batches, starts and reconnects happen at any moment and in any order; an attempt takes any time. Disturbances are counted. The
/// exploration ends where all jobs have ended.
struct ExploredQueue: ExplorableWorld {
    /// A kind of disturbance.
    enum Disturbance: Int, Hashable, CaseIterable {
        case failedAttempt, failedBatch, lostNetwork, stop, crash, reboot, cancel, shutDown, suspension, clock
        /// The passing of time while a batch could end or a job start.
        case lateness
    }

    /// A case to explore.
    struct Setting: Sendable {
        var name: String
        var workers = 2
        /// The most attempts that run on the bus of each worker.
        var places = Int.max
        /// The jobs: serial key and earlier crashes.
        var jobs: [(key: String?, crashes: Int)] = [(nil, 0), ("a", 0), ("a", 0)]
        /// False if no attempt whose outcome is unknown may be repeated.
        var isRepeatable = true
        /// The number of times that each kind of disturbance may happen.
        var disturbances: [Disturbance: Int]
        /// The most disturbances of all kinds.
        var most = 100
        /// True if it is quick enough to explore it whole each time.
        var isSmall = false
    }

    private(set) var world: QueueWorld
    private var budget: DisturbanceBudget<Disturbance>

    init(_ setting: Setting) throws {
        world = QueueWorld(workers: setting.workers, seed: 1, places: setting.places)
        budget = DisturbanceBudget(setting.disturbances, most: setting.most)
        for job in setting.jobs {
            try world.push(serialKey: job.key, crashes: job.crashes, isRepeatable: setting.isRepeatable)
        }
        for number in 0..<setting.workers { try world.begin(number) }
    }

    var fingerprint: QueueFingerprint { QueueFingerprint(world, after: budget.left) }

    var undisturbed: ExploredQueue {
        var queue = self
        queue.budget.end()
        return queue
    }

    // MARK: - Steps

    func steps() -> [QueueWorld.Step] {
        guard world.hasUnfinishedJobs else { return [] }
        var steps: [QueueWorld.Step] = []
        for number in world.workers.indices { steps += self.steps(of: number) }
        if budget.may(.reboot) { steps.append(.reboot) }
        if budget.may(.cancel) { steps += world.cancellableJobs.map { .cancel($0) } }
        if world.nextMoment != nil, budget.may(.lateness) || !world.isBusy { steps.append(.pass) }
        if budget.may(.suspension) { steps.append(.suspend(25)) }
        // 30 years.
        if budget.may(.clock) { steps += [.stepClock(-1_000_000_000), .stepClock(1_000_000_000)] }
        return steps
    }

    private func steps(of number: Int) -> [QueueWorld.Step] {
        let worker = world.workers[number]
        if worker.hasEnded { return [.restart(number)] }
        var steps: [QueueWorld.Step] = []
        if budget.may(.crash) { steps.append(.crash(number)) }
        if worker.isStopped { return steps + [.setStopped(number, false)] }
        if let batch = worker.batch {
            steps.append(.endBatch(number))
            if budget.may(.failedBatch) { steps += (0..<batch.parts).map { .failBatch(number, after: $0) } }
        }
        for advance in world.advances(of: number) {
            steps.append(advance)
            guard budget.may(.failedAttempt), case .advance(_, let job, let claim, _) = advance, world.isRunning(advance)
            else { continue }
            steps.append(.advance(number, job: job, claim: claim, succeeds: false))
        }
        if !worker.isOpen { steps.append(.setOpen(number, true)) }
        if worker.isOpen, budget.may(.lostNetwork) { steps.append(.setOpen(number, false)) }
        if budget.may(.stop) { steps.append(.setStopped(number, true)) }
        if budget.may(.shutDown), !worker.isShuttingDown { steps += [0, 3].map { .shutDown(number, drain: $0) } }
        return steps
    }

    mutating func play(_ step: QueueWorld.Step) throws {
        if let disturbance = Disturbance(step, in: world), budget.may(disturbance) { budget.spend(disturbance) }
        try world.play(step)
    }

    func stepTowardsTheEnd() throws -> QueueWorld.Step? { try world.stepTowardsTheEnd() }

    func checkEnd() throws { try world.checkEnd() }
}

extension ExploredQueue.Disturbance {
    /// Creates the disturbance that a step is; `nil` if it may happen any number of times.
    fileprivate init?(_ step: QueueWorld.Step, in world: QueueWorld) {
        switch step {
        case .failBatch: self = .failedBatch
        case .advance(_, _, _, succeeds: false): self = .failedAttempt
        case .setOpen(_, false): self = .lostNetwork
        case .setStopped(_, true): self = .stop
        case .crash: self = .crash
        case .reboot: self = .reboot
        case .cancel: self = .cancel
        case .shutDown: self = .shutDown
        case .suspend: self = .suspension
        case .stepClock: self = .clock
        case .pass where world.isBusy: self = .lateness
        case .endBatch, .advance, .setOpen, .setStopped, .restart, .pass, .wait: return nil
        }
    }
}

extension QueueWorld {
    fileprivate var hasUnfinishedJobs: Bool { ids.contains { row($0)?.job.state.isFinal == false } }

    /// True if something happens at once unless something is late.
    fileprivate var isBusy: Bool {
        workers.indices.contains { number in
            let worker = workers[number]
            guard !worker.isStopped, !worker.hasEnded else { return false }
            let mayStart = worker.isOpen && hasPlace(number)
            return worker.batch != nil || worker.tasks.values.contains { $0.stage == .waiting && (mayStart || $0.isCancelled) }
        }
    }

    /// The jobs whose cancellation would change something.
    fileprivate var cancellableJobs: [Int] {
        ids.indices.filter { number in row(ids[number]).map { !$0.job.state.isFinal && !$0.job.isCancelRequested } ?? false }
    }

    /// True if a step ends an attempt that was not cancelled.
    fileprivate func isRunning(_ step: Step) -> Bool {
        guard case .advance(let number, let job, let claim, _) = step else { return false }
        return workers[number].tasks[JobTicket(id: ids[job], claim: claim)].map { $0.stage == .running && !$0.isCancelled } ?? false
    }
}

extension StoreBatch {
    /// The number of parts that can fail.
    fileprivate var parts: Int {
        if registers { return 1 }
        return [
            !writes.results.isEmpty, !writes.starts.isEmpty, extends, expires, claim != nil,
            unregisters,
        ].count { $0 }
    }
}
