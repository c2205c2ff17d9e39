import CommandKit
import ReachabilityTesting
import Testing

@testable import Reachability
@testable import reachability_service

@Suite(.timeLimit(.minutes(1))) struct EvidenceChainTests {
    /// Returns the chain of a scope on a network as `link state detail`.
    private static func chain(of scope: Scope = .internet, on network: SimulatedNetwork) throws -> [String] {
        let explanation = try #require(try ReachabilityMonitor(network).explanations(of: [scope]).first)
        return EvidenceChain(explanation).steps.map { step in
            [step.link.rawValue, step.state.rawValue, step.detail].filter { !$0.isEmpty }.joined(separator: " ")
        }
    }

    @Test func eachLinkOfAPathHasItsEvidence() throws {
        #expect(
            try Self.chain(on: .online()) == [
                "interface holds eth0, wired, up", "carrier holds carrier, operational state up",
                "address holds 192.0.2.10/24", "route holds default, table main, metric 0",
                "nextHop holds gateway 192.0.2.1, from 192.0.2.10",
            ])
    }

    @Test func aPulledCableBreaksTheCarrier() throws {
        let network = SimulatedNetwork.online()
        try network.pull("eth0")
        #expect(
            try Self.chain(on: network) == [
                "interface holds eth0, wired, up", "carrier broken no carrier", "address unknown", "route unknown",
                "nextHop unknown",
            ])
    }

    @Test func aShutInterfaceIsTheFirstBrokenLink() throws {
        let network = SimulatedNetwork.online()
        try network.setUp("eth0", false)
        #expect(try Self.chain(on: network).prefix(2) == ["interface broken interface is shut down", "carrier unknown"])
    }

    @Test func aMissingInterfaceIsTheFirstBrokenLink() throws {
        #expect(try Self.chain(on: SimulatedNetwork()).first == "interface broken no network interface")
    }

    @Test func aMissingAddressBreaksTheThirdLink() throws {
        let network = SimulatedNetwork.online()
        try network.removeAddress("eth0", "192.0.2.10/24")
        #expect(try Self.chain(on: network)[2] == "address broken no usable address")
    }

    @Test func aMissingRouteBreaksTheFourthLink() throws {
        let network = SimulatedNetwork.online()
        try network.removeRoute(to: "default")
        #expect(
            try Self.chain(on: network) == [
                "interface holds eth0, wired, up", "carrier holds carrier, operational state up", "address holds 192.0.2.10/24",
                "route broken no route", "nextHop unknown",
            ])
    }

    @Test func aHostHasALinkForItsName() throws {
        let network = SimulatedNetwork.online()
        try network.setHost("nas.local", to: "192.0.2.7")
        #expect(try Self.chain(of: .host("nas.local"), on: network)[3] == "name holds 192.0.2.7")
        #expect(try Self.chain(of: .host("nix.local"), on: network)[3].hasPrefix("name broken "))
        #expect(try Self.chain(of: .host("nix.local"), on: network).suffix(2) == ["route unknown", "nextHop unknown"])
    }

    @Test func everyReasonBreaksExactlyOneLink() {
        for reason in OfflineReason.all {
            let path = NetworkPath(status: .unsatisfied, offlineReason: reason)
            let explanation = Explanation(scope: .host("nas.local"), path: path, interfaces: [], lookups: [], layers: [:])
            let states = EvidenceChain(explanation).steps.map(\.state)
            #expect(states.count { $0 == .broken } == 1, "\(reason)")
        }
    }

    @Test func anUnknownPathHasNoEvidence() {
        let explanation = Explanation(scope: .internet, path: .unknown, interfaces: [], lookups: [], layers: [:])
        #expect(EvidenceChain(explanation).steps.allSatisfy { $0.state == .unknown })
    }
}
