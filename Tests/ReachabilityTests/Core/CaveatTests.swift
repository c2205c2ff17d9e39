import ReachabilityTesting
import Testing

@testable import Reachability

/// The caveats of an explanation: a scene and the kernel's answers, and what cannot be known.
@Suite struct CaveatTests {
    struct Scene: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var caveats: [String]
        var scope = Scope.internet
        var evidence: @Sendable (inout Evidence) -> Void = { _ in }
        var make: @Sendable (SimulatedNetwork) throws -> Void = { _ in }
    }

    private static let (blocks, protects): (PacketPolicy.Effect, PacketPolicy.Effect) = (.blocks, .protects)

    private static func policy(
        _ effect: PacketPolicy.Effect, to destination: String = "0.0.0.0", _ length: Int = 0, priority: UInt32 = 0,
        _ change: (inout PacketPolicy) -> Void = { _ in }
    ) -> PacketPolicy {
        var policy = PacketPolicy(
            from: IPPrefix(ip("192.0.2.0"), length: 24), to: IPPrefix(ip(destination), length: length))
        (policy.effect, policy.priority) = (effect, priority)
        change(&policy)
        return policy
    }

    private static let isProtected =
        "an IPsec policy protects packets from 192.0.2.0/24 to default: they need an answer of its other end"
    private static let isBlocked = "an IPsec policy blocks packets from 192.0.2.0/24 to default: connect(2) fails with EPERM"
    private static let isPort =
        "eth0 is a port of the VRF blue: answers reach only sockets that are bound to it, unless net.ipv4.tcp_l3mdev_accept is 1"
    private static let isSilent = "gateway 192.0.2.1 does not answer on eth0"

    private static func addVRF(_ network: SimulatedNetwork) throws {
        try network.addLink("blue", kind: .virtual)
        try network.batch { kernel throws(SimulationError) in
            try kernel.setUnderlay("blue", linkKind: "vrf")
            try kernel.setUnderlay("eth0", master: "blue")
        }
    }

    private static func scope(_ change: (inout Scope) -> Void) -> Scope {
        var scope = Scope.internet
        change(&scope)
        return scope
    }

    static let scenes = [
        Scene(testDescription: "nothing is known", caveats: []),
        Scene(testDescription: "policy with a peer", caveats: [isProtected], evidence: { $0.policies = [policy(.protects)] }),
        Scene(testDescription: "policy that blocks", caveats: [isBlocked], evidence: { $0.policies = [policy(.blocks)] }),
        Scene(testDescription: "policy without effect", caveats: [], evidence: { $0.policies = [policy(.none)] }),
        Scene(
            testDescription: "the policy with the lowest number counts", caveats: [isBlocked],
            evidence: { $0.policies = [policy(.protects, priority: 9), policy(.blocks, priority: 3)] }),
        Scene(
            testDescription: "a policy for a part of the internet",
            caveats: ["an IPsec policy blocks packets from 192.0.2.0/24 to 198.0.0.0/8: connect(2) fails with EPERM"],
            evidence: { $0.policies = [policy(.blocks, to: "198.0.0.0", 8)] }),
        Scene(
            testDescription: "policies for other packets", caveats: [],
            evidence: {
                $0.policies = [
                    policy(.blocks, to: "203.0.113.0", 24), policy(.blocks) { $0.transport = .udp },
                    policy(.blocks) { $0.interface = 99 }, policy(.blocks) { $0.mark = .init(value: 1, mask: 1) },
                    policy(.blocks) { $0.port = .init(value: 443, mask: .max) },
                    policy(.blocks) { $0.selectsSourcePort = true },
                    policy(.blocks) { $0.source = IPPrefix(ip("198.51.100.0"), length: 24) },
                ]
            }),
        Scene(
            testDescription: "policy for the scope's mark and port", caveats: [isBlocked],
            scope: scope { ($0.mark, $0.port) = (0xca6c, 443) },
            evidence: {
                $0.policies = [
                    policy(.blocks) { ($0.mark, $0.port) = (.init(value: 0xc, mask: 0xf), .init(value: 443, mask: .max)) }
                ]
            }),
        Scene(
            testDescription: "nothing leaves an unsatisfied path", caveats: [],
            evidence: {
                $0.policies = [policy(.blocks)]
                $0.silent = [.init(interface: 2, address: ip("192.0.2.1"))]
            }, make: { try $0.pull("eth0") }),
        Scene(
            testDescription: "silent gateway", caveats: [isSilent],
            evidence: { $0.silent = [.init(interface: 2, address: ip("192.0.2.1"))] }),
        Scene(
            testDescription: "silent host on the link", caveats: ["192.0.2.77 does not answer on eth0"],
            scope: .address(ip("192.0.2.77")),
            evidence: { $0.silent = [.init(interface: 2, address: ip("192.0.2.77"))] }),
        Scene(
            testDescription: "bond without monitoring",
            caveats: ["eth0 does not watch its ports (miimon and arp_interval are 0): a dead one keeps its share"],
            evidence: { $0.unmonitoredBonds = [2] },
            make: { network in
                try network.batch { kernel throws(SimulationError) in try kernel.setUnderlay("eth0", linkKind: "bond") }
            }),
        Scene(testDescription: "port of a VRF", caveats: [isPort], make: { try addVRF($0) }),
        Scene(
            testDescription: "bound to a port of a VRF", caveats: [], scope: scope { $0.interface = "eth0" },
            make: { try addVRF($0) }),
        Scene(
            testDescription: "port of a bridge", caveats: [],
            make: { network in
                try addVRF(network)
                try network.batch { kernel throws(SimulationError) in try kernel.setUnderlay("blue", linkKind: "bridge") }
            }),
    ]

    @Test(arguments: scenes) func caveatsNeedEvidence(scene: Scene) throws {
        let network = SimulatedNetwork.online()
        try scene.make(network)
        var explanation = try #require(try ReachabilityMonitor(network).explanations(of: [scene.scope]).first)
        scene.evidence(&explanation.evidence)
        #expect(explanation.caveats.map(\.detail) == scene.caveats)
    }

    @Test func onlyWhatPacketsUseIsAskedFor() throws {
        let network = SimulatedNetwork.online(hasIPv6: true)
        try network.addLink("bond7", kind: .virtual)
        try network.addAddress("bond7", "198.51.100.10/24")
        try network.addLink("bond8", kind: .virtual)
        try network.batch { kernel throws(SimulationError) in
            for name in ["bond7", "bond8"] { try kernel.setUnderlay(name, linkKind: "bond") }
        }
        let monitor = ReachabilityMonitor(network)
        func questions() throws -> OpenQuestions { try #require(try monitor.explanations(of: [.internet]).first).openQuestions }
        let gateways = ["192.0.2.1", "fe80::1"].map { Neighbour(interface: 2, address: ip($0)) }
        #expect(try questions() == OpenQuestions(neighbours: gateways))
        try network.removeRoute(to: "default", via: "192.0.2.1")
        try network.addRoute(
            to: "default", through: [.init(via: "192.0.2.1", dev: "eth0"), .init(via: "198.51.100.1", dev: "bond7")])
        let second = Neighbour(interface: 3, address: ip("198.51.100.1"))
        #expect(try questions().neighbours == [gateways[0], second, gateways[1]])
        try network.replaceRoute(to: "default", via: "198.51.100.1", dev: "bond7")
        #expect(try questions() == OpenQuestions(neighbours: [second, gateways[1]], bonds: [3]))
        try network.pull("eth0")
        try network.pull("bond7")
        #expect(try questions() == OpenQuestions())
    }

    @Test func silentNextHopOfSeveralFails() throws {
        let network = SimulatedNetwork.online()
        try network.addLink("eth1")
        try network.addAddress("eth1", "198.51.100.10/24")
        try network.removeRoute(to: "default", via: "192.0.2.1")
        try network.addRoute(
            to: "default", through: [.init(via: "192.0.2.1", dev: "eth0"), .init(via: "198.51.100.1", dev: "eth1")])
        var explanation = try #require(try ReachabilityMonitor(network).explanations(of: [.internet]).first)
        #expect(explanation.failingNextHops.isEmpty)
        explanation.evidence.silent = [.init(interface: 3, address: ip("198.51.100.1"))]
        let silent = FailingNextHop(
            interface: .init(index: 3, name: "eth1"), gateway: ip("198.51.100.1"), family: .ipv4)
        #expect(explanation.failingNextHops == [silent])
    }

    @Test func portsAreJudgedByTheirMaster() throws {
        let network = SimulatedNetwork.online()
        try network.addLink("eth1")
        try network.addLink("eth2")
        try network.addLink("br0", kind: .virtual)
        try network.batch { kernel throws(SimulationError) in
            try kernel.setUnderlay("br0", linkKind: "bridge")
            try kernel.setUnderlay("eth1", master: "br0")
        }
        func layers() throws -> [UInt32: OfflineReason] {
            try #require(try ReachabilityMonitor(network).explanations(of: [.internet]).first).layers
        }
        #expect(try layers() == [2: .noRoute, 4: .noAddress, 5: .noAddress])
        try network.pull("eth1")
        #expect(try layers()[3] == .noCarrier, "a port without a cable carries nothing")
    }
}
