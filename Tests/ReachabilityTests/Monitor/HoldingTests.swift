import Reachability
import ReachabilityTesting
import Testing

/// Conditions of the source addresses of connections.
@Suite(.timeLimit(.minutes(10))) struct HoldingTests {
    private let second = "198.51.100.7/24"

    private func source(_ monitor: ReachabilityMonitor) throws -> Condition {
        let source = try #require(monitor.sources(to: .internet).first)
        #expect(monitor.sources(to: .internet).count == 1 && source == IPAddress("192.0.2.10"))
        return monitor.condition(holding: source)
    }

    @Test func secondCableKeepsTheFirst() async throws {
        try await withMonitor { monitor, network, _ in
            let source = try source(monitor)
            let reading = source.storage.reading
            #expect(reading.isKnown && reading.state == Condition.State(isSatisfied: true, epoch: 1))
            try network.addLink("eth1")
            try network.addAddress("eth1", second)
            try network.replaceRoute(to: "default", via: "198.51.100.1", dev: "eth1")
            #expect(monitor.sources(to: .internet) == [try #require(IPAddress("198.51.100.7"))])
            #expect(source.state == reading.state)
            try network.pull("eth0")
            #expect(source.state == reading.state, "an interface without carrier still has its addresses")
        }
    }

    @Test func onlyRemovalOfTheAddressIsALoss() async throws {
        try await withMonitor { monitor, network, _ in
            let source = try source(monitor)
            let address = try #require(network.kernel.interfaces.first { $0.name == "eth0" })
            let renewed = try #require(address.addresses.first { $0.address.family == .ipv4 })
            network.announce(.address(renewed, interface: address.index))
            #expect(source.state == Condition.State(isSatisfied: true, epoch: 1))
            try network.removeAddress("eth0", "192.0.2.10/24")
            #expect(source.state == Condition.State(isSatisfied: false, epoch: 1))
            try network.addLink("eth1")
            try network.addAddress("eth1", "192.0.2.10/24")
            #expect(source.state == Condition.State(isSatisfied: true, epoch: 2), "on whatever interface")
        }
    }

    @Test func addressReaddedInOneBatchStays() async throws {
        try await withMonitor { monitor, network, _ in
            let source = try source(monitor)
            try network.batch { kernel throws(SimulationError) in
                try kernel.removeAddress("eth0", "192.0.2.10/24")
                try kernel.addAddress("eth0", "192.0.2.10/24")
            }
            #expect(source.state == Condition.State(isSatisfied: true, epoch: 1))
        }
    }

    @Test func addressGoesWithItsInterface() async throws {
        try await withMonitor { monitor, network, _ in
            let source = try source(monitor)
            try network.removeLink("eth0")
            #expect(!source.state.isSatisfied)
        }
    }

    @Test func lostEventsAreMadeUpFor() async throws {
        try await withMonitor { monitor, network, _ in
            let source = try source(monitor)
            try network.loseEvents { kernel throws(SimulationError) in try kernel.removeAddress("eth0", "192.0.2.10/24") }
            #expect(!source.state.isSatisfied)
        }
    }

    @Test func conditionKeepsItsAddressWatched() async throws {
        try await withMonitor { monitor, network, _ in
            let usage = monitor.usage
            do {
                let conditions = [try source(monitor), try source(monitor)]
                #expect(conditions[0].storage === conditions[1].storage && monitor.usage == usage + 1)
            }
            #expect(monitor.usage == usage)
        }
    }

    @Test func conditionEndsWithItsMonitor() async throws {
        let network = SimulatedNetwork.online()
        let monitor = ReachabilityMonitor(network)
        let address = try #require(IPAddress("192.0.2.10"))
        let condition = monitor.condition(holding: address)
        #expect(!condition.storage.reading.isKnown)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        #expect(condition.storage.reading.isKnown && condition.state.isSatisfied)
        running.cancel()
        try await running.value
        #expect(condition.state.isFinished && monitor.condition(holding: address).state.isFinished)
    }
}
