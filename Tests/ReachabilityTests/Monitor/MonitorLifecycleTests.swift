import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct MonitorLifecycleTests {
    @Test func pathIsUnknownBeforeRun() throws {
        let network = SimulatedNetwork.online(clock: ManualClock())
        let monitor = ReachabilityMonitor(network)
        #expect(monitor.path == .unknown && monitor.health.mode == .starting)
        #expect(monitor.condition(for: .internet).state == .init())
        // Lookups work without running.
        #expect(try monitor.path(to: .internet).status == .satisfied)
    }

    @Test func earlyListenerGetsTheBaselineWithTheSnapshot() async throws {
        let network = SimulatedNetwork.online(clock: ManualClock())
        let monitor = ReachabilityMonitor(network)
        let stream = monitor.transitions
        let running = Task { try await monitor.run() }
        let listener = try await Listener(stream)
        #expect(listener.baseline.current.status == .satisfied && listener.baseline.epoch == 1 && listener.baseline.sequence == 0)
        #expect(listener.baseline.cause.kind == .started)
        running.cancel()
        try await running.value
    }

    @Test func lateListenerStartsFromThePresentPath() async throws {
        try await withMonitor { monitor, network, clock in
            try network.pull("eth0")
            clock.advance(by: .seconds(1))
            let late = try await Listener(monitor.transitions)
            #expect(late.baseline.sequence == 1 && late.baseline.current.offlineReason == .noCarrier && late.baseline.epoch == 1)
        }
    }

    @Test func endIsPublishedAndNothingLeaks() async throws {
        let network = SimulatedNetwork.online(clock: ManualClock())
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        var listener = try await Listener(monitor.transitions)
        let condition = monitor.condition(for: .internet)
        running.cancel()
        try await running.value
        let last = try await listener.next()
        #expect(last.current.status == .unknown && last.kinds.isEmpty && last.cause.kind == .ended)
        #expect(await listener.end() == nil)
        #expect(condition.state.isFinished && monitor.path == .unknown && monitor.health.mode == .blind)
        var after: [Transition] = []
        for await transition in monitor.transitions { after.append(transition) }
        #expect(after.map(\.current) == [.unknown] && after.first?.isBaseline == true && after.first?.cause == last.cause)
        let late = monitor.condition(for: .address(ip("192.0.2.77")))
        #expect(late.state == .init(isFinished: true))
        await #expect(throws: ReachabilityError.self) { try await monitor.waitUntilSatisfied() }
        #expect(monitor.usage == 0)
    }

    @Test func releasedMonitorFinishesItsStreams() async {
        let stream = ReachabilityMonitor(SimulatedNetwork.online()).transitions
        for await _ in stream { Issue.record("it never ran") }
    }

    @Test func monitorRunsOnce() async throws {
        try await withMonitor { monitor, network, clock in
            let error = await #expect(throws: ReachabilityError.self) { try await monitor.run() }
            #expect(error?.code == .alreadyRun)
        }
    }

    @Test func failingSourceEndsTheMonitor() async throws {
        let network = SimulatedNetwork.online(clock: ManualClock())
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        _ = try await Listener(monitor.transitions)
        let failure = ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)")
        network.stop(throwing: failure)
        await #expect(throws: failure) { try await running.value }
        #expect(monitor.health.failure == failure && monitor.path == .unknown)
    }

    @Test func waitEndsWhenSatisfied() async throws {
        try await withMonitor { monitor, network, clock in
            try network.pull("eth0")
            // Waits already when the network comes.
            let waiting = Task.immediate { try await monitor.waitUntilSatisfied() }
            #expect(monitor.condition(for: .internet).storage.listenerCount == 1)
            try network.plug("eth0")
            try await waiting.value
            try await monitor.waitUntilSatisfied()
        }
    }

    @Test func waitEndsWhenCancelled() async throws {
        try await withMonitor { monitor, network, clock in
            try network.pull("eth0")
            let waiting = Task.immediate { try await monitor.waitUntilSatisfied() }
            let storage = monitor.condition(for: .internet).storage
            #expect(storage.listenerCount == 1)
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            #expect(storage.listenerCount == 0)
        }
    }

    @Test func scopesCountApartAndEndWithTheirListeners() async throws {
        try await withMonitor { monitor, network, clock in
            do {
                let neighbour = Scope.address(ip("192.0.2.77"))
                var listener = try await Listener(monitor.transitions(to: neighbour, raw: true))
                #expect(listener.baseline.current.isSatisfied && listener.baseline.current.gateways.isEmpty)
                try network.removeRoute(to: "default")
                try network.pull("eth0")
                let change = try await listener.next()
                #expect(change.sequence == 1 && change.kinds == .offline && change.current.offlineReason == .noCarrier)
                #expect(monitor.usage == 2)
            }
            #expect(monitor.usage == 0)
        }
    }

    @Test func slowListenerSeesTheGap() async throws {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.bufferedTransitions = 4
        try await withMonitor(configuration) { monitor, network, clock in
            let stream = monitor.transitions(to: .internet, raw: true)
            for _ in 0..<10 {
                try network.pull("eth0")
                try network.plug("eth0")
            }
            var seen: [UInt64] = []
            for await transition in stream {
                seen.append(transition.sequence)
                if transition.sequence == 20 { break }
            }
            #expect(seen == [17, 18, 19, 20])
        }
    }
}
