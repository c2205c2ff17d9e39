import Reachability
import ReachabilityTesting
import ReachableRetry

/// A run of a scenario in virtual time, with the real monitor and bus.
struct SimulatedRun: Sendable {
    /// The way in which jobs are repeated.
    enum Method: String, CaseIterable, Sendable {
        /// As the scenario says.
        case bus
        /// With the same policies, without knowledge of the network and of other jobs.
        case plain
    }

    /// The number of jobs up to which waits are recorded.
    static let mostJobsWithWaits = 40

    let scenario: Scenario
    let method: Method
    /// The seed of the jitter.
    let seed: UInt64
    /// The number of attempts at which it stops.
    var mostAttempts = Scenario.mostAttempts

    /// Runs the scenario to its end.
    ///
    /// - Throws: `CancellationError`, or the error of a change that the kernel rejects, which the parser has excluded.
    func perform() async throws -> SimulationRecord {
        var monitorConfiguration = ReachabilityMonitor.Configuration()
        // No change is silent here.
        (monitorConfiguration.auditInterval, monitorConfiguration.auditIntervalWhileUnsatisfied) = (nil, nil)
        var busConfiguration = RetryBus.Configuration()
        busConfiguration.releasePolicy = method == .bus ? scenario.release : .immediate
        // As many as there are attempts, which are limited.
        busConfiguration.bufferedEvents = .max
        let world = TestWorld(
            SimulatedNetwork(scenario.network.kernel), monitorConfiguration: monitorConfiguration,
            busConfiguration: busConfiguration, generator: SeededGenerator(seed: seed))
        let recorder = SimulationRecorder(self)
        try await world.run { world in
            let events = world.bus.events
            world.start { for await event in events { recorder.note(event) } }
            recorder.note(world.monitor.path, at: .zero)
            try await play(world, recorder)
            recorder.finish(at: world.clock.now.offset)
            await world.bus.shutdown(drain: .zero)
        }
        return recorder.record
    }

    private func play(_ world: TestWorld, _ recorder: SimulationRecorder) async throws {
        let steps = Dictionary(grouping: scenario.network.steps, by: \.at)
        let jobs = Dictionary(grouping: scenario.jobs.indices) { scenario.network.effectiveTime(scenario.jobs[$0].at) }
        let moments = Set(steps.keys).union(jobs.keys).sorted()
        for moment in moments where scenario.until.map({ moment <= $0 }) ?? true {
            await advance(world, to: moment) { !recorder.isFull }
            guard !recorder.isFull else { return }
            for step in steps[moment] ?? [] { try await take(step, world, recorder) }
            for job in jobs[moment] ?? [] { submit(job, world, recorder) }
            await world.settle()
        }
        if let until = scenario.until {
            await advance(world, to: until) { !recorder.isFull }
        } else {
            let end = world.clock.now.offset + Scenario.patience
            await advance(world, to: end, isLast: true) { !recorder.isFull && !recorder.isOver }
        }
    }

    /// Advances the clock from one deadline to the next while there is a reason to.
    ///
    /// - Parameter isLast: True to stop at the last deadline instead of at `target`.
    private func advance(
        _ world: TestWorld, to target: Duration, isLast: Bool = false, while hasReason: () -> Bool
    ) async {
        let clock = world.clock.manual
        while hasReason(), let next = clock.nextDeadline, next.offset <= target {
            clock.advance(to: next)
            await world.settle()
        }
        if hasReason(), !isLast { await world.clock.advance(to: .init(offset: target)) }
    }

    private func take(_ step: ScriptedNetwork.Step, _ world: TestWorld, _ recorder: SimulationRecorder) async throws {
        switch step.action {
        case .suspend(let duration): world.network.suspend(for: duration)
        case .retryNow: world.bus.retryNow()
        case .pull, .plug, .down, .up, .defaultRoute:
            try world.network.batch { kernel throws(SimulationError) in try scenario.network.apply(step, to: &kernel) }
        }
        // Published when the call has returned.
        recorder.note(world.monitor.path, at: world.clock.now.offset, step.action)
        await world.settle()
    }

    private func submit(_ index: Int, _ world: TestWorld, _ recorder: SimulationRecorder) {
        let job = scenario.jobs[index]
        var policy = scenario.policies[job.policy].policy
        var destination = job.server.map { scenario.servers[$0].name }
        if method == .plain {
            policy = policy.connectivity(.ignore)
            // Jobs with a destination share what they learn about it.
            destination = nil
        }
        let options = JobOptions(destination: destination, priority: job.priority, id: JobID(job.name))
        let (bus, clock) = (world.bus, world.clock.manual)
        recorder.noteSubmission(of: index, at: clock.now.offset)
        world.start { [policy, scenario] in
            // Its end is an event of the bus.
            try? await bus.retry(policy, options: options) { _ in
                let end = scenario.end(ofAttemptAt: clock.now.offset, of: job)
                try await clock.sleep(until: .init(offset: end.at))
                if let failure = end.failure { throw failure }
            }
        }
    }
}
