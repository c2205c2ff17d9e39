import ReachabilityTesting
import Testing

@testable import Reachability

/// The interface that a running monitor names: it knows where packets left before.
@Suite(.timeLimit(.minutes(1))) struct CulpritTests {
    /// Returns the missing layer in words, and the culprit of an explanation.
    private func missing(_ monitor: ReachabilityMonitor) throws -> (String?, Culprit?) {
        let explanation = try #require(try monitor.explanations(of: [.internet]).first)
        let culprit = Culprit(
            of: explanation.path, .internet, to: explanation.lookups.map(\.query.destination), explanation.lostEgress,
            explanation.interfaces)
        return (monitor.missing(for: .internet), culprit)
    }

    @Test func modemThatIsGoneIsNamed() async throws {
        try await withMonitor { monitor, network, _ in
            try network.rename("eth0", to: "wwan0")
            try network.addLink("wan0", isUp: false)
            #expect(monitor.missing(for: .internet) == nil)
            try network.removeLink("wwan0")
            let (words, culprit) = try missing(monitor)
            #expect(words == "wwan0 is gone (adminDown)" && culprit == .gone("wwan0"))
            try network.setUp("wan0", true)
            try network.pull("wan0")
            #expect(monitor.missing(for: .internet) == "wwan0 is gone (noCarrier)")
        }
    }

    @Test func lastInterfaceThatIsGoneIsNamed() async throws {
        try await withMonitor { monitor, network, _ in
            try network.removeLink("eth0")
            #expect(monitor.missing(for: .internet) == "eth0 is gone (noInterface)")
        }
    }

    @Test func deviceThatCameBackIsNotGone() async throws {
        try await withMonitor { monitor, network, _ in
            try network.removeLink("eth0")
            try network.addLink("eth0")
            #expect(monitor.missing(for: .internet) == "eth0 has no usable address (noAddress)")
        }
    }

    @Test func lostEgressOutweighsTheFurthestInterface() async throws {
        try await withMonitor { monitor, network, _ in
            try network.addLink("eth1", hasCarrier: false)
            try network.addAddress("eth1", "198.51.100.10/24")
            try network.setUp("eth0", false)
            let (words, culprit) = try missing(monitor)
            #expect(words == "eth0 is shut down (adminDown)" && monitor.path.offlineReason == .noCarrier)
            guard case .interface(let interface, .adminDown) = culprit else {
                Issue.record("\(String(describing: culprit))")
                return
            }
            #expect(interface.name == "eth0")
        }
    }

    @Test func chosenInterfaceOutweighsTheLostEgress() async throws {
        try await withMonitor { monitor, network, _ in
            try network.setUp("eth0", false)
            try network.addLink("eth1", hasCarrier: false)
            try network.addAddress("eth1", "198.51.100.10/24")
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "eth1")
            #expect(monitor.missing(for: .internet) == "eth1 has no carrier (noCarrier)")
        }
    }

    @Test func chosenInterfaceIsNamedAmongSeveral() async throws {
        try await withMonitor(online: false) { monitor, network, _ in
            try network.addLink("eth1", hasCarrier: false)
            try network.addAddress("eth1", "192.0.2.10/24")
            try network.addLink("eth2")
            try network.addAddress("eth2", "198.51.100.10/24")
            try network.addRoute(to: "default", via: "198.51.100.1", dev: "eth2")
            try network.pull("eth2")
            #expect(monitor.missing(for: .internet) == "eth2 has no carrier (noCarrier)")
        }
    }

    @Test func severalCandidatesAreListed() async throws {
        try await withMonitor(online: false) { monitor, network, _ in
            try network.addLink("e\u{1b}1", hasCarrier: false)
            try network.addLink("wan0", isUp: false)
            #expect(monitor.missing(for: .internet) == #"e\x1b1 has no carrier, wan0 is shut down (noCarrier)"#)
        }
    }

    @Test func unnumberedInterfaceInUseMissesNothing() async throws {
        try await withMonitor { monitor, network, _ in
            try network.addLink("tun0", kind: .tunnel)
            try network.replaceRoute(to: "default", dev: "tun0", source: "192.0.2.10")
            let explanation = try #require(try monitor.explanations(of: [.internet]).first)
            let tunnel = try #require(explanation.interfaces.first { $0.name == "tun0" })
            #expect(explanation.path.isSatisfied && explanation.layers[tunnel.index] == .noRoute)
        }
    }
}
