import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10)))
struct DeliveryTests {
    let network = SimulatedNetwork.online()
    let batches = Recorder<NetworkEventBatch>()

    private var deliver: @Sendable (NetworkEventBatch) -> Duration? {
        { [batches] batch in
            batches.record(batch)
            return nil
        }
    }

    private var counts: [Int] { batches.value.map(\.events.count) }

    @Test func firstBatchIsEmptyAndImmediate() async throws {
        network.clock.advance(by: .seconds(7))
        try network.pull("eth0")
        try await network.running(deliver) { network in
            #expect(counts == [0])
            #expect(batches.value.first?.now.sinceBoot == .seconds(7))
            #expect(batches.value.first?.wallTime == SimulatedNetwork.startOfTime + .seconds(7))
            #expect(network.isRunning)
        }
        #expect(!network.isRunning)
    }

    @Test func changeIsPublishedWhenCallReturns() async throws {
        try await network.running(deliver) { network in
            try network.pull("eth0")
            #expect(counts == [0, 1])
            network.clock.advance(by: .seconds(1))
            try network.plug("eth0")
            #expect(counts == [0, 1, 1])
            #expect(batches.value.last?.now.sinceBoot == .seconds(1))
        }
    }

    @Test func changeWithoutEffectDeliversNothing() async throws {
        try await network.running(deliver) { network in
            try network.plug("eth0")
            try network.setUp("eth0", true)
            #expect(counts == [0])
        }
    }

    @Test func severalChangesComeInOneBatch() async throws {
        try await network.running(deliver) { network in
            try network.batch(hasMore: true) { kernel in
                try kernel.setCarrier("eth0", false)
                try kernel.addLink("eth1")
                try kernel.setCarrier("eth0", true)
            }
            #expect(counts == [0, 3])
            #expect(batches.value.last?.hasMore == true)
        }
    }

    @Test func failedBatchChangesAndDeliversNothing() async throws {
        try await network.running(deliver) { network in
            let before = network.kernel.interfaces
            #expect(throws: SimulationError.self) {
                try network.batch { kernel in
                    try kernel.setCarrier("eth0", false)
                    try kernel.setCarrier("eth9", false)
                }
            }
            #expect(network.kernel.interfaces == before)
            #expect(counts == [0])
        }
    }

    @Test func lostEventsBecomeOneOverrun() async throws {
        try await network.running(deliver) { network in
            try network.loseEvents { kernel in
                try kernel.addLink("eth1")
                try kernel.removeLink("eth0")
            }
            #expect(batches.value.last?.events == [.overrun])
            #expect(network.kernel.interfaces.map(\.name) == ["lo", "eth1"])
        }
    }

    @Test func silentChangeIsMadeButNotDelivered() async throws {
        try await network.running(deliver) { network in
            try network.changeSilently { kernel in try kernel.setUp("eth0", false) }
            #expect(counts == [0])
            #expect(try network.interfaces().last?.isUp == false)
        }
    }

    @Test func eventsAndCountersAreDeliveredWithoutChange() async throws {
        try await network.running(deliver) { network in
            network.announce(.netconf(interface: nil), .nexthop(id: 1, isRemoval: true), hasMore: true)
            network.announceSpoofed(3)
            network.announceMalformed(4)
            network.announceReceiveBuffer(65_536)
            #expect(batches.value[1].events == [.netconf(interface: nil), .nexthop(id: 1, isRemoval: true)])
            #expect(batches.value[1].hasMore)
            #expect(batches.value.map(\.spoofed) == [0, 0, 3, 0, 0])
            #expect(batches.value.map(\.malformed) == [0, 0, 0, 4, 0])
            #expect(batches.value.map(\.receiveBuffer) == [nil, nil, nil, nil, 65_536])
        }
    }

    @Test func requestsAreCountedAndFailOnDemand() throws {
        let query = RouteQuery(to: try #require(IPAddress("198.51.100.1")))
        let failure = ReachabilityError(.requestFailed, errno: 12, operation: "SimulatedNetwork.routes")
        network.failNextRequests(2, errno: 12)
        #expect(throws: failure) { try network.route(to: query) }
        #expect(throws: ReachabilityError.self) { try network.interfaces() }
        #expect(try network.interfaces().count == 2)
        guard case .route = try network.route(to: query) else {
            Issue.record("no route")
            return
        }
        #expect(network.lookups == 2)
        #expect(network.dumps == 2)
    }

    @Test func queriesAreAnsweredInTheirOrder() throws {
        let queries = ["198.51.100.1", "2001:db8:ffff::1", "127.0.0.1"].map {
            RouteQuery(to: IPAddress($0) ?? .init(family: .ipv4, value: 0))
        }
        let alone = queries.flatMap { network.routes(to: [$0]) }
        #expect(network.routes(to: queries) == alone && network.routes(to: queries.reversed()) == alone.reversed())
        #expect(network.lookups == 9 && network.routes(to: []).isEmpty)
        network.failNextRequests(1, errno: 12)
        #expect(network.routes(to: []).isEmpty && network.routes(to: queries).allSatisfy { (try? $0.get()) == nil })
        #expect(network.routes(to: queries) == alone)
    }

    @Test func dumpsAreInterruptedOnDemand() throws {
        network.interruptNextDumps(2)
        for _ in 0..<2 {
            let error = #expect(throws: ReachabilityError.self) { try network.interfaces() }
            #expect(error?.code == .interrupted)
        }
        #expect(try network.interfaces().count == 2)
        network.interruptNextDumps(1)
        network.failNextRequests(1, errno: 12)
        let error = #expect(throws: ReachabilityError.self) { try network.interfaces() }
        #expect(error?.code == .requestFailed, "the interruption is still pending")
        #expect(throws: ReachabilityError.self) { try network.interfaces() }
        network.interruptNextDumps(3)
        network.interruptNextDumps(-1)
        #expect(throws: Never.self) { try network.interfaces() }
    }
}

/// Each command makes one change of the model and one batch.
@Suite(.timeLimit(.minutes(10)))
struct NetworkCommandTests {
    @Test func eachCommandIsOneBatch() async throws {
        let network = SimulatedNetwork(try .cabled())
        let received = Recorder<[String]>()
        try await network.running { batch in
            received.record(batch.events.map(\.text))
            return nil
        } _: { network in
            try network.addRoute(to: "default", via: "10.9.0.2")
            try network.replaceRoute(to: "default", via: "10.8.0.2")
            try network.removeRoute(to: "default")
            try network.addRoute(to: "default", through: [.init(via: "10.9.0.2", dev: "va"), .init(via: "10.8.0.2", dev: "va2")])
            try network.addRule(.init(priority: 10, .prohibit))
            try network.removeRule(priority: 10)
            try network.addNexthop(1, via: "10.9.0.2", dev: "va")
            try network.addNexthopGroup(10, of: [1])
            try network.addRoute(to: "203.0.113.0/24", nexthop: 10)
            try network.replaceNexthop(1, via: "10.8.0.2", dev: "va2")
            try network.addBlackholeNexthop(2)
            try network.removeNexthop(10)
            try network.replaceNexthopByBlackhole(1)
            try network.setSysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1)
            try network.setSysctl("net.ipv4.nexthop_compat_mode", 0)
        }
        #expect(
            received.value == [
                [], ["route default via 10.9.0.2 if2"], ["route default via 10.8.0.2 if3"], ["-route default via 10.8.0.2 if3"],
                ["route default via 10.9.0.2 if2"], ["rule"], ["-rule"], ["nexthop 1"], ["nexthop 10"],
                ["route 203.0.113.0/24 via 10.9.0.2 if2"], ["nexthop 1", "route 203.0.113.0/24 via 10.8.0.2 if3"], ["nexthop 2"],
                ["-nexthop 10"], ["nexthop 1"], ["netconf all"],
            ])
    }

    @Test func failedCommandChangesNothing() throws {
        let network = SimulatedNetwork(try .cabled())
        let rules = network.kernel.rules
        #expect(throws: SimulationError.self) { try network.removeRule(priority: 10) }
        #expect(throws: SimulationError.self) { try network.removeNexthop(1) }
        #expect(throws: SimulationError.self) { try network.addRoute(to: "default", nexthop: 1) }
        #expect(network.kernel.rules == rules && network.kernel.nexthops.isEmpty)
    }
}
