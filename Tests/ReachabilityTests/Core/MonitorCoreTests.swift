import Reachability
import Testing

@Suite struct MonitorCoreTests {
    private let other = Scope.address(ip("192.0.2.77"))
    private let table = InterfaceTable([.loopback, .cable])
    private let defaultIPv4 = NetworkEvent.route(RouteChange(.all(.ipv4), interface: 2))
    private let defaultIPv6 = NetworkEvent.route(RouteChange(.all(.ipv6), interface: 2))

    /// A core with verdicts about the internet and another scope.
    private func core() -> MonitorCore {
        var core = MonitorCore(.init())
        core.retain(other)
        let evaluation = core.begin(at: .zero)
        #expect(evaluation.dump == .needed && evaluation.scopes.count == 2)
        _ = core.conclude(evaluation.answered([.internet, other], table: table))
        return core
    }

    private func failure(_ errno: Int32, _ operation: String = "RTM_GETROUTE") -> ReachabilityError {
        ReachabilityError(.requestFailed, errno: errno, operation: operation)
    }

    @Test func failedLookupKeepsTheSuspension() {
        var core = core()
        var evaluation = core.begin(.resumed(after: .seconds(60)), at: .seconds(61))
        _ = core.conclude(evaluation.answered([.internet], table: table, failure: failure(12)))
        #expect(core.condition(.internet).epoch == 2 && core.condition(other).epoch == 1)
        evaluation = core.begin(at: .seconds(62))
        #expect(evaluation.questions.contains(other))
        _ = core.conclude(evaluation.answered([.internet, other]))
        #expect(core.condition(.internet).epoch == 2 && core.condition(other).epoch == 2)
    }

    /// Changes that one message of its own announces.
    @Test(arguments: [
        NetworkEvent.nexthop(id: 7, isRemoval: true), .nexthop(id: 7, isRemoval: false), .rule(isRemoval: true),
        .rule(isRemoval: false), .netconf(interface: nil), .netconf(interface: 2), .linkRemoved(index: 2),
    ])
    func earlyEventIsEvaluatedThreeTimes(_ event: NetworkEvent) {
        var core = core()
        var now = Duration.seconds(1)
        var evaluation = core.begin(event, at: now)
        for pause in [2, 48] {
            #expect(evaluation.questions == [.internet, other])
            #expect(core.conclude(evaluation.answered([.internet, other])).wait == .milliseconds(pause))
            now += .milliseconds(pause)
            evaluation = core.begin(at: now)
        }
        #expect(evaluation.questions == [.internet, other])
    }

    /// The kernel collects a route up to 30 s after its end; on a busy machine both come in one batch.
    @Test func endOfALifetimeExplainsTheRemovalThatFollows() throws {
        var core = core()
        var evaluation = core.begin(defaultIPv6, at: .seconds(1)).answered([.internet])
        evaluation.scopes[0].expiry = .some(.seconds(4))
        #expect(core.conclude(evaluation).wait.map { $0 <= .seconds(3) } == true)
        let removal = NetworkEvent.route(RouteChange(.all(.ipv6), interface: 2, isRemoval: true))
        evaluation = core.begin(removal, at: .seconds(6))
        let transition = core.conclude(evaluation.answered([.internet], .offline(.noRoute))).transitions.first?.transition
        #expect(transition?.kinds == .offline && transition?.cause.detail == "the lifetime of a route ended")
    }

    /// Each new set of gateways is a new program for the kernel, which costs more than a verdict.
    @Test func pathThatComesAndGoesIsWatchedOnce() {
        var core = core()
        func watched(_ path: NetworkPath, at second: Int) -> Set<IPAddress>? {
            core.conclude(core.begin(defaultIPv4, at: .seconds(second)).answered([.internet], path)).gateways
        }
        for second in [1, 3, 5] {
            #expect(watched(.offline(), at: second) == nil && watched(.online(), at: second + 1) == nil)
        }
        // More than the filter can hold: those in use stay.
        let counts = (2...20).map { watched(.online(gateway: "192.0.2.\($0)"), at: 10 + $0)?.count }
        #expect(counts == Array(2...EventFilter.gatewayLimit) + [2, 3, 4, 5])
    }

    /// A tunnel without ground stands again as soon as a bridge knows the gateway by a port with carrier.
    @Test func portsAreAskedForWhileATunnelHasNoGround() {
        var core = core()
        var bridge = NetworkInterface(index: 4, name: "br0")
        bridge.linkKind = "bridge"
        func bridged(_ path: NetworkPath, at second: Int) -> Evaluation {
            core.conclude(core.begin(.link(bridge), defaultIPv4, at: .seconds(second)).answered([.internet], path))
        }
        let gateway = BridgedGateway(bridge: 4, interface: 4, gateway: ip("192.0.2.1"))
        var online = bridged(.online("br0", index: 4), at: 1)
        #expect(online.bridged == [gateway])
        online.ports = [gateway: 2]
        core.notePorts(of: &online)
        var offline = NetworkPath.offline()
        #expect(bridged(offline, at: 2).bridged == [])
        offline.obstacle = .ground(tunnel: .init(index: 9, name: "wg0"), last: nil, .noCarrier)
        #expect(bridged(offline, at: 3).bridged == [gateway])
    }

    @Test func unansweredScopeIsLookedUpWithTheNextBatch() {
        var core = core()
        _ = core.conclude(core.begin(defaultIPv4, at: .seconds(1)).answered([.internet], failure: failure(110)))
        // An event that concerns the internet alone, before the retry.
        let evaluation = core.begin(defaultIPv6, at: .milliseconds(1010))
        #expect(evaluation.questions == [.internet, other])
    }

    @Test func scopeWithoutAnswersDelaysNoOther() {
        var core = core()
        for second in 1...100 {
            let evaluation = core.begin(defaultIPv4, at: .seconds(second))
            let dumped = evaluation.dump == .needed ? table : nil
            let wait = core.conclude(evaluation.answered([.internet], table: dumped, failure: failure(1))).wait
            #expect(wait.map { $0 > .zero && $0 <= .seconds(5) } == true)
        }
        let audit = core.health.lastAudit
        #expect(audit.map { $0 >= .seconds(60) } == true)
        let evaluation = core.begin(.link(.cable), at: .seconds(101))
        #expect(core.conclude(evaluation.answered([.internet], failure: failure(1))).wait == .milliseconds(2))
    }

    @Test func failedAuditIsRepeated() {
        var core = core()
        var evaluation = core.begin(at: .seconds(30))
        #expect(evaluation.isAudit && evaluation.dump == .needed)
        #expect(core.conclude(evaluation.answered(failure: failure(110, "RTM_GETLINK"))).wait == .milliseconds(50))
        evaluation = core.begin(at: .milliseconds(30_010))
        #expect(evaluation.dump == .none && evaluation.scopes.isEmpty, "not before its time")
        #expect(core.conclude(evaluation).wait == .milliseconds(40))
        evaluation = core.begin(at: .milliseconds(30_050))
        #expect(evaluation.dump == .needed)
        _ = core.conclude(evaluation.answered([.internet, other], table: table))
        #expect(core.health.lastAudit == .milliseconds(30_050) && core.health.lastFailure == nil)
    }

    @Test func auditWaitsForTheEndOfAFlood() {
        var core = core()
        var evaluation = core.begin(defaultIPv4, at: .microseconds(29_999_500))
        _ = core.conclude(evaluation.answered([.internet, other]))
        evaluation = core.begin(defaultIPv4, at: .microseconds(30_000_001), hasMore: true)
        #expect(evaluation.scopes.isEmpty)
        _ = core.conclude(evaluation)
        evaluation = core.begin(at: .milliseconds(30_002))
        #expect(evaluation.isAudit && evaluation.dump == .needed)
    }

    /// A link, or a table that was read again, concerns both families.
    @Test func messageAboutOneFamilyLooksUpThatFamily() {
        var core = core()
        var now = Duration.seconds(1)
        let address = NetworkEvent.address(held("2001:db8::10/64"), interface: 2)
        let cases: [([NetworkEvent], FamilySet)] = [
            ([defaultIPv4], FamilySet(.ipv4)), ([defaultIPv6], FamilySet(.ipv6)), ([address], FamilySet(.ipv6)),
            ([defaultIPv4, defaultIPv6], .all), ([.link(.cable)], .all), ([defaultIPv4, .rule(isRemoval: false)], .all),
            ([defaultIPv4, .overrun], .all), ([.addressRemoved(held("192.0.2.10/24"), interface: 2)], .all),
        ]
        for (events, families) in cases {
            let evaluation = core.begin(NetworkEventBatch(events, now: BootInstant(sinceBoot: now), wallTime: .zero))
            #expect(evaluation.scopes.first?.scope == .internet && evaluation.scopes.first?.families == families, "\(events)")
            let dumped = evaluation.dump == .needed ? table : nil
            _ = core.conclude(evaluation.answered(evaluation.questions, table: dumped))
            now += .seconds(1)
            while let wait = core.conclude(core.begin(at: now).answered([.internet])).wait, wait < .seconds(1) { now += wait }
        }
    }

    @Test func removalOfTheSourceNeedsADump() {
        var core = core()
        var evaluation = core.begin(.addressRemoved(held("2001:db8::10/64"), interface: 2), at: .seconds(1))
        #expect(evaluation.dump == .none && !evaluation.scopes.isEmpty)
        _ = core.conclude(evaluation.answered([.internet, other]))
        evaluation = core.begin(.addressRemoved(held("192.0.2.10/24"), interface: 2), at: .seconds(2))
        #expect(evaluation.dump == .needed)
        _ = core.conclude(evaluation.answered([.internet, other], table: table))
        #expect(core.health.resyncs == 0)
    }

    @Test func fullBatchDelaysTheVerdictByOneMillisecond() {
        var core = core()
        var evaluation = core.begin(defaultIPv4, at: .microseconds(500), hasMore: true)
        #expect(evaluation.scopes.isEmpty)
        _ = core.conclude(evaluation)
        evaluation = core.begin(at: .milliseconds(1), hasMore: true)
        #expect(evaluation.scopes.count == 2)
        let finished = core.conclude(evaluation.answered([.internet], .offline(.noRoute)))
        #expect(finished.transitions.first?.transition.cause.kind == .routeAdded)
    }

    @Test func failedConfirmationWaitsForTheNextDump() {
        var core = core()
        var evaluation = core.begin(.overrun, at: .milliseconds(1000))
        #expect(evaluation.dump == .needed)
        _ = core.conclude(evaluation.answered([.internet, other], table: table))
        evaluation = core.begin(.overrun, at: .milliseconds(1001))
        #expect(evaluation.dump == .toConfirm && evaluation.scopes.count == 2)
        _ = core.conclude(evaluation.answered(failure: failure(105, "RTM_GETLINK")))
        evaluation = core.begin(.rule(isRemoval: false), at: .milliseconds(1002))
        #expect(evaluation.scopes.isEmpty && evaluation.dump == .none)
        _ = core.conclude(evaluation)
        evaluation = core.begin(at: .milliseconds(1051))
        #expect(evaluation.dump == .needed && evaluation.scopes.count == 2)
        _ = core.conclude(evaluation.answered([.internet, other], table: table))
        #expect(core.health.mode == .live && core.health.resyncs == 2)
    }

    @Test func changesAreMarkedUntilTheResync() throws {
        var core = core()
        let lost = core.begin(.overrun, at: .seconds(1)).answered([.internet, other], .offline(), table: table)
        #expect(core.conclude(lost).transitions.allSatisfy { $0.transition.kinds == [.offline, .resynced] })
        let regained = core.begin(defaultIPv4, at: .seconds(2)).answered([.internet, other])
        let transition = try #require(core.conclude(regained).transitions.first?.transition)
        #expect(transition.kinds == .online)
    }

    @Test func countsOfBatchesSaturate() {
        var core = core()
        #expect(core.health.drops == 0 && core.health.reopens == 0)
        _ = core.begin(NetworkEventBatch(now: .seconds(1), wallTime: .zero, drops: 7, reopens: 1))
        #expect(core.health.drops == 7 && core.health.reopens == 1)
        _ = core.begin(NetworkEventBatch(now: .seconds(1), wallTime: .zero, drops: .max, reopens: .max))
        #expect(core.health.drops == .max && core.health.reopens == .max)
    }
}

extension MonitorCore {
    fileprivate mutating func begin(_ events: NetworkEvent..., at now: Duration, hasMore: Bool = false) -> Evaluation {
        begin(NetworkEventBatch(events, now: BootInstant(sinceBoot: now), wallTime: .zero, hasMore: hasMore))
    }
}
