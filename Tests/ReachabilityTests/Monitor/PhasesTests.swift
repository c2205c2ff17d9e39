import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

/// The two phases of a publication: conditions first, then streams with details.
@Suite(.timeLimit(.minutes(10))) struct PhasesTests {
    @Test func conditionsPrecedeDetailsAndStreams() async throws {
        try await withMonitor { monitor, network, _ in
            let log = Recorder<String>()
            let executor = IdleExecutor { log.record("stream") }
            let condition = monitor.condition(for: .internet)
            let observer = condition.storage.observe {
                log.record("condition: \(condition.state.isSatisfied), \(monitor.path.ipv4.prefixLength ?? -1)")
            }
            let listening = Task(executorPreference: executor) {
                for await _ in monitor.transitions(to: .internet, raw: true) {}
            }
            executor.runJobs()
            _ = log.take()
            try network.removeRoute(to: "default")
            #expect(log.take() == ["condition: false, -1", "stream"])
            executor.runJobs()
            try network.addRoute(to: "default", via: "192.0.2.1")
            #expect(log.take() == ["condition: true, -1", "stream"])
            #expect(monitor.path.ipv4.prefixLength == 0)
            condition.storage.removeObserver(observer)
            listening.cancel()
            executor.runJobs()
            await listening.value
        }
    }

    @Test func tasksRunBetweenConditionsAndDetails() async throws {
        let log = Recorder<String>()
        let network = SimulatedNetwork.online(clock: ManualClock())
        let monitor = ReachabilityMonitor(PhaseLog(network: network, log: log))
        let condition = monitor.condition(for: .internet)
        let observer = condition.storage.observe { log.record("condition") }
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        _ = log.take()
        try network.removeRoute(to: "default")
        #expect(log.take() == ["condition", "tasks"])
        try network.addRoute(to: "default", via: "192.0.2.1")
        #expect(log.take() == ["condition", "tasks", "details"])
        // Nothing changes.
        try network.addRoute(to: "203.0.113.0/24", via: "192.0.2.1")
        #expect(log.take() == [])
        condition.storage.removeObserver(observer)
        running.cancel()
        try await running.value
    }

    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func conditionsAndStreamsAgree(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let network = SimulatedNetwork.online(clock: ManualClock(), hasIPv6: true)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        var bound = Scope.internet
        bound.interface = "eth0"
        let witnesses = [.internet, .address(ip("203.0.113.9")), .address(ip("2001:db8:1::9")), bound].map { Witness(monitor, $0) }
        for step in 0..<300 {
            // Impossible changes are skipped.
            try? Self.change(network, using: &generator)
            for witness in witnesses {
                var stream = monitor.transitions(to: witness.scope, raw: true).makeAsyncIterator()
                let baseline = try #require(await stream.next())
                let state = witness.condition.state
                let published = Condition.State(isSatisfied: baseline.current.isSatisfied, epoch: baseline.epoch)
                #expect(state == published && witness.seen == state, "seed \(seed), step \(step), \(witness.scope)")
            }
        }
        #expect(witnesses[0].condition.state.epoch > 20, "seed \(seed): too few edges")
        running.cancel()
        try await running.value
    }

    private static func change(_ network: SimulatedNetwork, using generator: inout SeededGenerator) throws {
        let destination =
            ["default", "default", "0.0.0.0/1", "203.0.113.0/24", "::/0"].randomElement(using: &generator) ?? "default"
        let gateway = destination == "::/0" ? "fe80::1" : Bool.random(using: &generator) ? "192.0.2.1" : "192.0.2.2"
        let cable = Bool.random(using: &generator) ? "eth0" : "eth1"
        switch Int.random(in: 0..<12, using: &generator) {
        case 0, 1: try network.removeRoute(to: destination)
        case 2, 3:
            try network.replaceRoute(to: destination, via: gateway, dev: cable, metric: .random(in: 0...2, using: &generator))
        case 4: try network.setCarrier("eth0", .random(using: &generator))
        case 5: try network.setUp("eth0", .random(using: &generator))
        case 6: try network.addLink("eth1")
        case 7: try network.addAddress("eth1", "192.0.2.20/24")
        case 8: try network.addAddress("eth0", "192.0.2.10/24")
        case 9: try network.removeAddress("eth0", "192.0.2.10/24")
        case 10: network.suspend(for: .seconds(2))
        default: network.clock.advance(by: .milliseconds(.random(in: 1...400, using: &generator)))
        }
        if Int.random(in: 0..<8, using: &generator) == 0 { network.announce(.overrun) }
    }

    @Test func changeWithoutDetailsIsPublishedAndDescribedLater() async throws {
        try await withMonitor { monitor, network, clock in
            var listener = try await Listener(monitor.transitions(to: .internet, raw: true))
            try network.removeRoute(to: "default")
            _ = try await listener.next()
            let condition = monitor.condition(for: .internet)
            // The next request is for the details.
            let observer = condition.storage.observe { network.failNextRequests(1, errno: ENOMEM) }
            try network.addRoute(to: "default", via: "192.0.2.1")
            condition.storage.removeObserver(observer)
            let gain = try await listener.next()
            #expect(gain.kinds == .online && gain.current.ipv4.prefixLength == nil && gain.current.ipv4.gateway == ip("192.0.2.1"))
            #expect(monitor.health.failedRequests == 1 && monitor.health.lastFailure?.errno == ENOMEM)
            clock.advance(by: .milliseconds(50))
            #expect(monitor.path.ipv4.prefixLength == 0 && monitor.health.lastFailure == nil)
            try network.removeRoute(to: "default")
            let loss = try await listener.next()
            #expect(loss.sequence == gain.sequence + 1 && loss.previous?.ipv4.prefixLength == 0)
        }
    }

    @Test func scopeReleasedBetweenThePhasesStartsAgain() {
        let other = Scope.address(ip("192.0.2.77"))
        var core = MonitorCore(.init())
        core.retain(other)
        var evaluation = core.begin(NetworkEventBatch(now: .zero, wallTime: .zero))
            .answered([.internet, other], table: InterfaceTable([.loopback, .cable]))
        core.applyVerdicts(to: &evaluation)
        #expect(core.condition(other).epoch == 1)
        core.release(other)
        core.retain(other)
        core.finish(&evaluation)
        #expect(evaluation.transitions.isEmpty && core.path(other) == nil && core.path(.internet) != nil)
        let key = StreamKey(scope: other, isRaw: true)
        #expect(core.baseline(key, now: .zero, wallTime: .zero) == nil)
        evaluation = core.begin(NetworkEventBatch(now: .milliseconds(1), wallTime: .zero))
        #expect(evaluation.questions == [other])
    }
}

/// A network that logs the order of its calls.
private struct PhaseLog: SourceWrapper, TaskRunningSource {
    let network: SimulatedNetwork
    let log: Recorder<String>

    func runTasks() { log.record("tasks") }
    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        for query in queries where query.fibMatch { log.record("details") }
        return network.routes(to: queries)
    }
}

/// An executor that reports jobs and runs them on demand.
private final class IdleExecutor: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])
    private let note: @Sendable () -> Void

    init(note: @escaping @Sendable () -> Void) { self.note = note }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        note()
    }

    func runJobs() {
        while let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// The last state that an observer of a condition saw.
private final class Witness: Sendable {
    let scope: Scope
    let condition: Condition
    private let state: Mutex<Condition.State>

    init(_ monitor: ReachabilityMonitor, _ scope: Scope) {
        self.scope = scope
        condition = monitor.condition(for: scope)
        state = Mutex(condition.state)
        _ = condition.storage.observe { [weak self] in
            guard let self else { return }
            let seen = condition.state
            state.withLock { $0 = seen }
        }
    }

    var seen: Condition.State { state.withLock { $0 } }
}
