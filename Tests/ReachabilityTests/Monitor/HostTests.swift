import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Scopes that name a host.
@Suite(.timeLimit(.minutes(10))) struct HostTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let monitor: ReachabilityMonitor
    private let nas = Scope.host("nas.example")

    init() {
        network = .online(clock: clock)
        monitor = ReachabilityMonitor(network)
    }

    private func running(_ body: () async throws -> Void) async throws {
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        try await body()
        running.cancel()
        await running.value
    }

    @Test func numericHostIsAnAddress() throws {
        #expect(Scope.host("192.0.2.9") == .address(ip("192.0.2.9")) && Scope.host("NAS.example") == nas)
        #expect("\(nas)" == "nas.example" && nas != .host("nas2.example"))
    }

    @Test func oneReachableAddressSatisfiesAHost() async throws {
        try network.addRoute(to: "203.0.113.9/32", type: .unreachable)
        try network.setHost("nas.example", to: "203.0.113.9", "198.51.100.7", "2001:db8:5::1")
        let condition = monitor.condition(for: nas)
        try await running {
            #expect(condition.state.isSatisfied && condition.state.epoch == 1)
            try network.addRoute(to: "198.51.100.7/32", type: .prohibit)
            #expect(try monitor.path(to: nas).ipv4.reason == .prohibited, "the later of the two")
            #expect(!condition.state.isSatisfied, "the network has no IPv6")
            try network.addAddress("eth0", "2001:db8:1::10/64", skipsDetection: true)
            try network.addRoute(to: "::/0", via: "2001:db8:1::1", dev: "eth0")
            let path = try monitor.path(to: nas)
            #expect(path.ipv6.isSatisfied && !path.ipv4.isSatisfied)
            #expect(condition.state.isSatisfied && condition.state.epoch == 2)
        }
    }

    @Test func baselineWaitsForTheFirstAnswer() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        var transitions = monitor.transitions(to: nas, raw: true).makeAsyncIterator()
        try await running {
            let baseline = try #require(await transitions.next(isolation: #isolation))
            #expect(baseline.isBaseline && baseline.current.isSatisfied)
            #expect(network.hostLookups == 1)
        }
    }

    @Test func hostWithoutAddressesIsUnresolved() async throws {
        var transitions = monitor.transitions(to: nas, raw: true).makeAsyncIterator()
        try await running {
            let baseline = try #require(await transitions.next(isolation: #isolation))
            #expect(baseline.current.offlineReason == .unresolved && baseline.current.ipv4.reason == .unresolved)
            try network.setHost("nas.example", to: "198.51.100.7")
            clock.advance(by: .milliseconds(999))
            #expect(network.hostLookups == 1)
            clock.advance(by: .milliseconds(1))
            let found = try #require(await transitions.next(isolation: #isolation))
            #expect(found.current.isSatisfied && found.cause.kind == .hostLookedUp)
            #expect(found.cause.detail == "nas.example has the address 198.51.100.7")
        }
        #expect(monitor.health.missedByEvents == 0)
    }

    @Test func hostIsLookedUpAgainInAnotherNetwork() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        let condition = monitor.condition(for: nas)
        try await running {
            clock.advance(by: .seconds(10))
            try network.pull("eth0")
            #expect(!condition.state.isSatisfied && network.hostLookups == 1, "no lookup while offline")
            clock.advance(by: .seconds(1000))
            #expect(network.hostLookups == 1)
            try network.addRoute(to: "198.51.100.7/32", type: .blackhole)
            try network.setHost("nas.example", to: "198.51.100.8")
            try network.plug("eth0")
            #expect(condition.state.isSatisfied && network.hostLookups == 2)
        }
    }

    @Test func changedFileOfTheResolverFindsAHost() async throws {
        network.setNameServers(.refuses)
        var transitions = monitor.transitions(to: nas, raw: true).makeAsyncIterator()
        try await running {
            #expect(await transitions.next(isolation: #isolation)?.current.nameLookupFailure == .refused)
            // Past the lookups at 0, 1, 3, 7, 15 and 30 s.
            clock.advance(by: .seconds(31))
            try network.setHost("nas.example", to: "198.51.100.7")
            network.setNameServers(.answers)
            #expect(network.hostLookups == 6)
            network.changeResolver()
            clock.advance(by: .milliseconds(100))
            #expect(network.hostLookups == 7)
            let found = try #require(await transitions.next(isolation: #isolation))
            #expect(found.current.isSatisfied && found.cause.kind == .hostLookedUp)
            #expect(found.cause.detail == "nas.example has the address 198.51.100.7, after /etc/resolv.conf changed")
            try network.setHost("nas.example")
            clock.advance(by: .seconds(1))
            network.changeResolver("/etc/hosts")
            clock.advance(by: .milliseconds(100))
            let lost = try #require(await transitions.next(isolation: #isolation))
            #expect(lost.current.offlineReason == .unresolved && network.hostLookups == 8)
            #expect(lost.cause.detail == "nas.example: the name does not exist, after /etc/hosts changed")
        }
        #expect(monitor.health.missedByEvents == 0)
    }

    @Test func changedFileMovesAHost() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        try network.addRoute(to: "198.51.100.8/32", type: .blackhole)
        let condition = monitor.condition(for: nas)
        try await running {
            clock.advance(by: .seconds(10))
            try network.setHost("nas.example", to: "198.51.100.8")
            network.changeResolver("/etc/hosts")
            clock.advance(by: .milliseconds(100))
            #expect(!condition.state.isSatisfied && network.hostLookups == 2)
        }
    }

    @Test func changedFileCausesNoLookupWithoutHosts() async throws {
        try await running {
            let lookups = network.lookups
            network.changeResolver()
            clock.advance(by: .seconds(1))
            #expect(network.hostLookups == 0 && network.lookups == lookups)
        }
    }

    @Test func lowerLayerIsTheReasonFirst() async throws {
        try network.pull("eth0")
        var transitions = monitor.transitions(to: nas, raw: true).makeAsyncIterator()
        try await running {
            #expect(await transitions.next(isolation: #isolation)?.current.offlineReason == .noCarrier)
            try network.plug("eth0")
            #expect(await transitions.next(isolation: #isolation)?.current.offlineReason == .unresolved)
        }
    }

    @Test func addressesOutliveFailingNameServers() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        let condition = monitor.condition(for: nas)
        try await running {
            network.setNameServers(.refuses)
            clock.advance(by: .seconds(60))
            #expect(network.hostLookups == 2 && condition.state.isSatisfied && condition.state.epoch == 1)
            network.setNameServers(.answers)
            try network.setHost("nas.example")
            clock.advance(by: .seconds(1))
            #expect(network.hostLookups == 3 && !condition.state.isSatisfied, "now it is known to have none")
        }
    }

    @Test(arguments: [
        (SimulatedNetwork.NameServers.answers, NameLookupFailure.notFound), (.silent, .noAnswer), (.refuses, .refused),
    ])
    func reasonForNoAddressIsReported(servers: SimulatedNetwork.NameServers, failure: NameLookupFailure) async throws {
        network.setNameServers(servers)
        var transitions = monitor.transitions(to: nas, raw: true).makeAsyncIterator()
        try await running {
            // A silent server is waited for a second.
            clock.advance(by: .seconds(1))
            let baseline = try #require(await transitions.next(isolation: #isolation))
            #expect(baseline.current.offlineReason == .unresolved && baseline.current.nameLookupFailure == failure)
            #expect(monitor.missing(for: nas) == "\(failure) (unresolved)")
            #expect(try monitor.path(to: nas).nameLookupFailure == failure, "the known failure of a watched host")
            #expect(try monitor.path(to: .host("other.example")).nameLookupFailure == failure, "looked up now")
            try network.setHost("nas.example", to: "198.51.100.7")
            network.setNameServers(.answers)
            clock.advance(by: .seconds(60))
            let found = try #require(await transitions.next(isolation: #isolation))
            #expect(found.current.isSatisfied && found.current.nameLookupFailure == nil)
        }
    }

    @Test func silentServerFailsALookupAfterItsLimit() async throws {
        network.setNameServers(.silent)
        let condition = monitor.condition(for: nas)
        try await running {
            try network.setHost("nas.example", to: "198.51.100.7")
            clock.advance(by: .seconds(10) + .milliseconds(999))
            #expect(network.hostLookups == 1 && !condition.state.isSatisfied)
            clock.advance(by: .milliseconds(1))
            #expect(network.hostLookups == 2)
            // It answers at last, and the lookup that waits has its answer.
            network.setNameServers(.answers)
            #expect(condition.state.isSatisfied && network.hostLookups == 2)
        }
    }

    @Test func sourceWithoutResolverLeavesHostsUnresolved() async throws {
        let deaf = DeafSource(network: network)
        let monitor = ReachabilityMonitor(deaf)
        var transitions = monitor.transitions(to: nas, raw: true).makeAsyncIterator()
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        clock.advance(by: .seconds(1))
        #expect(await transitions.next(isolation: #isolation)?.current.nameLookupFailure == .notAsked)
        #expect(try monitor.path(to: .host("other.example")).nameLookupFailure == .notAsked)
        #expect(network.hostLookups == 0)
        running.cancel()
        await running.value
    }

    @Test func silentSourceDelaysTheVerdictByOneSecond() async throws {
        let silent = SilentResolver(network: network)
        let monitor = ReachabilityMonitor(silent)
        let condition = monitor.condition(for: nas)
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        #expect(!condition.storage.reading.isKnown)
        clock.advance(by: .milliseconds(999))
        #expect(!condition.storage.reading.isKnown)
        clock.advance(by: .milliseconds(1))
        #expect(condition.storage.reading.isKnown && !condition.state.isSatisfied)
        running.cancel()
        await running.value
    }

    @Test func pathToAWatchedHostNeedsNoNameLookup() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        let condition = monitor.condition(for: nas)
        try await running {
            let known = try monitor.path(to: nas)
            #expect(known.isSatisfied && network.hostLookups == 1)
            let unknown = try monitor.path(to: .host("other.example"))
            #expect(unknown.offlineReason == .unresolved && network.hostLookups == 2)
            #expect(condition.state.isSatisfied)
        }
    }

    @Test func sourceWatchesTheHostsAddresses() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        let watched = WatchedNetwork(network)
        let monitor = ReachabilityMonitor(watched)
        let condition = monitor.condition(for: nas)
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        #expect(condition.state.isSatisfied && watched.watched.last?.contains(ip("198.51.100.7")) == true)
        #expect(watched.askedUnwatched.isEmpty)
        running.cancel()
        await running.value
    }

    @Test func releasedHostIsNotLookedUp() async throws {
        try network.setHost("nas.example", to: "198.51.100.7")
        try await running {
            do {
                let condition = monitor.condition(for: nas)
                #expect(condition.state.isSatisfied)
            }
            clock.advance(by: .seconds(600))
            #expect(network.hostLookups == 1)
        }
    }
}

/// A network whose name servers never answer, not even with an error.
private struct SilentResolver: SourceWrapper, HostResolving {
    let network: SimulatedNetwork

    func resolve(_ host: String) {}
}

/// A network that looks up no names.
private struct DeafSource: SourceWrapper {
    let network: SimulatedNetwork
}
