import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

/// Requests that are made, repeated and saved.
@Suite(.timeLimit(.minutes(10))) struct PathRequestTests {
    @Test func pathOfARunningMonitorNeedsNoDump() async throws {
        try await withMonitor { monitor, network, clock in
            let before = network.dumps
            #expect(try monitor.path(to: .internet).isSatisfied)
            #expect(try monitor.path(to: .address(ip("203.0.113.1"))).isSatisfied)
            try network.pull("eth0")
            #expect(try monitor.path(to: .internet).offlineReason == .noCarrier)
            #expect(network.dumps == before)
        }
    }

    @Test func unknownInterfaceNeedsADump() async throws {
        try await withMonitor { monitor, network, clock in
            let before = network.dumps
            // An interface and an address without an event.
            try network.changeSilently { kernel in
                try kernel.addLink("eth1")
                try kernel.addAddress("eth1", "198.51.100.10/24")
                try kernel.addRoute(to: "203.0.113.0/24", via: "198.51.100.1")
            }
            #expect(try monitor.path(to: .address(ip("203.0.113.1"))).interface?.name == "eth1" && network.dumps == before + 1)
            try network.changeSilently { try $0.addAddress("eth0", "192.0.2.11/24") }
            try network.changeSilently { try $0.addRoute(to: "9.9.9.9", via: "192.0.2.1", dev: "eth0", source: "192.0.2.11") }
            #expect(try monitor.path(to: .address(ip("9.9.9.9"))).ipv4.source == ip("192.0.2.11") && network.dumps == before + 2)
            #expect(try monitor.path(to: .internet).isSatisfied && network.dumps == before + 2)
        }
    }

    @Test func pathOfAMonitorThatIsNotLiveNeedsADump() async throws {
        let network = SimulatedNetwork.online()
        let monitor = ReachabilityMonitor(network)
        #expect(try monitor.path(to: .internet).isSatisfied && network.dumps == 1)
        try await withMonitor { monitor, network, clock in
            network.failNextRequests(1, errno: ENOBUFS)
            network.loseEvents { _ in }
            #expect(monitor.health.mode == .resyncing)
            let before = network.dumps
            let path = try monitor.path(to: .internet)
            #expect(path.isSatisfied && network.dumps == before + 1)
        }
    }

    @Test func callersInterruptedDumpIsRepeatedAtOnce() throws {
        let network = SimulatedNetwork.online()
        let monitor = ReachabilityMonitor(network)
        network.interruptNextDumps(5)
        #expect(try monitor.path(to: .internet).isSatisfied && network.dumps == 6)
        network.interruptNextDumps(100)
        let error = #expect(throws: ReachabilityError.self) { _ = try monitor.path(to: .internet) }
        #expect(error?.code == .interrupted && network.dumps == 12)
    }

    @Test func monitorsInterruptedDumpIsRepeatedAfterTenMilliseconds() async throws {
        try await withMonitor { monitor, network, clock in
            let before = network.dumps
            network.interruptNextDumps(2)
            try network.loseEvents { try $0.setUp("eth0", false) }
            #expect(network.dumps == before + 1 && monitor.path.isSatisfied)
            for (pause, dumps) in [(9, 1), (1, 2), (19, 2), (1, 3)] {
                clock.advance(by: .milliseconds(pause))
                #expect(network.dumps == before + dumps)
            }
            #expect(!monitor.path.isSatisfied && monitor.health.mode == .live)
            #expect(monitor.health.failedRequests == 0 && monitor.health.lastFailure == nil, "an interruption is no failure")
        }
    }

    @Test func earlyInterruptionDoesNotBlind() async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        network.interruptNextDumps(1)
        let monitor = ReachabilityMonitor(network)
        let stream = monitor.transitions
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        #expect(monitor.health.mode == .starting && monitor.health.impairment == nil)
        clock.advance(by: .milliseconds(10))
        let listener = try await Listener(stream)
        #expect(listener.baseline.current.isSatisfied && listener.baseline.cause.kind == .started)
        running.cancel()
        await running.value
    }

    // MARK: - Blindness

    @Test func blindMonitorRecovers() async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        network.failNextRequests(2, errno: EMFILE)
        let monitor = ReachabilityMonitor(network)
        let (stream, raw) = (monitor.transitions, monitor.transitions(to: .internet, raw: true))
        let running = Task { try? await monitor.run() }
        var (damped, other) = (try await Listener(stream), try await Listener(raw))
        for baseline in [damped.baseline, other.baseline] {
            #expect(baseline.current == .unknown && baseline.cause.kind == .blinded && baseline.cause.detail.contains("errno 24"))
            #expect(baseline.sequence == 0 && baseline.epoch == 0)
        }
        #expect(monitor.health.mode == .blind && monitor.health.impairment?.errno == EMFILE && monitor.health.failure == nil)
        let late = try await Listener(monitor.transitions(to: .address(ip("203.0.113.1"))))
        #expect(late.baseline.current == .unknown && late.baseline.cause.kind == .blinded)
        #expect(monitor.path == .unknown && monitor.health.mode == .blind)
        clock.advance(by: .seconds(1))
        for transition in [try await damped.next(), try await other.next()] {
            #expect(transition.kinds == .online && transition.sequence == 1 && transition.epoch == 1)
            #expect(transition.previous == .unknown && transition.current.isSatisfied)
        }
        #expect(monitor.health.mode == .live && monitor.health.impairment == nil && monitor.path.isSatisfied)
        running.cancel()
        await running.value
    }

    /// A network whose lookups fail while its dumps succeed.
    private final class Unanswered: SourceWrapper {
        let network: SimulatedNetwork
        private let fails = Mutex(true)

        init(_ network: SimulatedNetwork) { self.network = network }

        func recover() { fails.withLock { $0 = false } }
        func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
            guard fails.withLock(\.self) else { return network.routes(to: queries) }
            return queries.map { _ in .failure(ReachabilityError(.resourcesExhausted, errno: EMFILE, operation: "socket()")) }
        }
    }

    @Test func dumpsWithoutLookupsStayBlind() async throws {
        let clock = ManualClock()
        let source = Unanswered(SimulatedNetwork.online(clock: clock))
        let monitor = ReachabilityMonitor(source)
        let stream = monitor.transitions
        let running = Task { try? await monitor.run() }
        var listener = try await Listener(stream)
        #expect(listener.baseline.current == .unknown && listener.baseline.cause.kind == .blinded)
        #expect(monitor.health.mode == .blind && monitor.health.impairment?.errno == EMFILE)
        clock.advance(by: .seconds(10))
        #expect(monitor.health.mode == .blind && monitor.path == .unknown)
        source.recover()
        clock.advance(by: .seconds(10))
        let transition = try await listener.next()
        #expect(transition.kinds == .online && transition.previous == .unknown)
        #expect(monitor.health.mode == .live && monitor.health.impairment == nil && monitor.health.lastFailure == nil)
        running.cancel()
        await running.value
    }

    @Test func streamBeforeAnEarlyEndHasItsBaseline() async throws {
        let network = SimulatedNetwork.online()
        network.interruptNextDumps(.max)
        let monitor = ReachabilityMonitor(network)
        let stream = monitor.transitions
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        running.cancel()
        try await running.value
        var transitions: [Transition] = []
        for await transition in stream { transitions.append(transition) }
        #expect(transitions.count == 1 && transitions.first?.current == .unknown && transitions.first?.cause.kind == .ended)
    }

    @Test func laterFailuresDoNotBlind() async throws {
        try await withMonitor { monitor, network, clock in
            network.failNextRequests(.max, errno: EMFILE)
            try network.pull("eth0")
            clock.advance(by: .seconds(60))
            #expect(monitor.health.mode != .blind && monitor.path.status != .unknown)
        }
    }

    // MARK: - After the end

    @Test func streamAfterTheEndHasItsBaseline() async throws {
        let network = SimulatedNetwork.online()
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        let failure = ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)")
        network.stop(throwing: failure)
        await #expect(throws: failure) { try await running.value }
        for scope in [Scope.internet, .address(ip("203.0.113.1")), .host("nas.example")] {
            for isRaw in [true, false] {
                var transitions: [Transition] = []
                for await transition in monitor.transitions(to: scope, raw: isRaw) { transitions.append(transition) }
                try #require(transitions.count == 1)
                #expect(transitions[0].isBaseline && transitions[0].current == .unknown && transitions[0].kinds.isEmpty)
                #expect(transitions[0].cause == Cause(.ended, failure.description))
            }
            let condition = monitor.condition(for: scope)
            #expect(condition.state == .init(isFinished: true))
            var states: [Condition.State] = []
            for await state in condition.updates { states.append(state) }
            #expect(states == [.init(isFinished: true)])
        }
        var health: [MonitorHealth] = []
        for await update in monitor.healthUpdates { health.append(update) }
        #expect(health.map(\.failure) == [failure])
        #expect(monitor.usage == 0)
    }
}
