import Reachability
import Testing

@Suite struct MonitorCoreTests {
    private let other = Scope.address(ip("192.0.2.77"))

    /// A core that has judged the internet and another scope.
    private func core() -> MonitorCore {
        var core = MonitorCore(.init())
        core.retain(other)
        let plan = core.receive(NetworkEventBatch(now: .zero, wallTime: .zero))
        #expect(plan.needsInterfaces && plan.questions.count == 2)
        _ = core.conclude(plan, answers([.internet, other], InterfaceTable([.loopback, .cable])))
        return core
    }

    private func answers(_ scopes: [Scope], _ table: InterfaceTable? = nil) -> MonitorCore.Answers {
        var answers = MonitorCore.Answers()
        answers.table = table
        answers.paths = scopes.map { MonitorCore.Answers.Verdict($0, .online()) }
        return answers
    }

    @Test func aScopeWhoseLookUpFailedStillHearsOfTheSuspension() {
        var core = core()
        var plan = core.receive(NetworkEventBatch([.resumed(after: .seconds(60))], now: .seconds(61), wallTime: .zero))
        var partial = answers([.internet], InterfaceTable([.loopback, .cable]))
        partial.failures = [ReachabilityError(.requestFailed, errno: 12, operation: "RTM_GETROUTE")]
        _ = core.conclude(plan, partial)
        #expect(core.condition(.internet).epoch == 2 && core.condition(other).epoch == 1)
        plan = core.receive(NetworkEventBatch(now: .seconds(62), wallTime: .zero))
        #expect(plan.questions.contains { $0.scope == other })
        _ = core.conclude(plan, answers([.internet, other]))
        #expect(core.condition(.internet).epoch == 2 && core.condition(other).epoch == 2)
    }

    /// What is announced by one message of its own: a nexthop object that routes lead through, a rule, a setting, an end.
    @Test(arguments: [
        NetworkEvent.nexthop(id: 7, isRemoval: true), .nexthop(id: 7, isRemoval: false), .rule(isRemoval: true),
        .rule(isRemoval: false), .netconf(interface: nil), .netconf(interface: 2), .linkRemoved(index: 2),
    ])
    func whatMayChangeTheWayOfPacketsAsksAtOnceAndTwiceMore(_ event: NetworkEvent) {
        var core = core()
        var now = Duration.seconds(1)
        var plan = core.receive(NetworkEventBatch([event], now: BootInstant(sinceBoot: now), wallTime: .zero))
        // The message may have come before the change.
        for pause in [2, 48] {
            #expect(plan.questions.map(\.scope) == [.internet, other])
            #expect(core.conclude(plan, answers([.internet, other])).wait == .milliseconds(pause))
            now += .milliseconds(pause)
            plan = core.receive(NetworkEventBatch(now: BootInstant(sinceBoot: now), wallTime: .zero))
        }
        #expect(plan.questions.map(\.scope) == [.internet, other])
    }

    @Test func aScopeWithoutAnswerIsAskedAboutAgainWithTheNextQuestions() {
        var core = core()
        let both = NetworkEvent.route(RouteChange(.all(.ipv4), interface: 2))
        var plan = core.receive(NetworkEventBatch([both], now: .seconds(1), wallTime: .zero))
        var partial = answers([.internet])
        partial.failures = [ReachabilityError(.requestFailed, errno: 110, operation: "RTM_GETROUTE")]
        _ = core.conclude(plan, partial)
        // Something that concerns the internet alone, before the retry.
        let ipv6 = NetworkEvent.route(RouteChange(.all(.ipv6), interface: 2))
        plan = core.receive(NetworkEventBatch([ipv6], now: .milliseconds(1010), wallTime: .zero))
        #expect(plan.questions.map(\.scope) == [.internet, other])
    }

    @Test func aScopeThatIsNeverAnsweredHoldsUpNobodyElse() {
        var core = core()
        for second in 1...100 {
            let route = NetworkEvent.route(RouteChange(.all(.ipv4), interface: 2))
            let plan = core.receive(NetworkEventBatch([route], now: .seconds(second), wallTime: .zero))
            var partial = answers([.internet], plan.needsInterfaces ? InterfaceTable([.loopback, .cable]) : nil)
            partial.failures = [ReachabilityError(.requestFailed, errno: 1, operation: "RTM_GETROUTE")]
            let outcome = core.conclude(plan, partial)
            #expect(outcome.wait.map { $0 > .zero && $0 <= .seconds(5) } == true)
        }
        let audit = core.health.lastAudit
        #expect(audit.map { $0 >= .seconds(60) } == true)
        let plan = core.receive(NetworkEventBatch([.link(.cable)], now: .seconds(101), wallTime: .zero))
        var partial = answers([.internet])
        partial.failures = [ReachabilityError(.requestFailed, errno: 1, operation: "RTM_GETROUTE")]
        #expect(core.conclude(plan, partial).wait == .milliseconds(2), "the second look at what may precede its change")
    }

    @Test func anAuditWhoseDumpFailedIsMadeAgain() {
        var core = core()
        var plan = core.receive(NetworkEventBatch(now: .seconds(30), wallTime: .zero))
        #expect(plan.isAudit && plan.needsInterfaces)
        var failed = MonitorCore.Answers()
        failed.failures = [ReachabilityError(.requestFailed, errno: 110, operation: "RTM_GETLINK")]
        #expect(core.conclude(plan, failed).wait == .milliseconds(50))
        plan = core.receive(NetworkEventBatch(now: .milliseconds(30_010), wallTime: .zero))
        #expect(!plan.needsInterfaces && plan.questions.isEmpty, "not before its time")
        #expect(core.conclude(plan, MonitorCore.Answers()).wait == .milliseconds(40))
        plan = core.receive(NetworkEventBatch(now: .milliseconds(30_050), wallTime: .zero))
        #expect(plan.needsInterfaces)
        _ = core.conclude(plan, answers([.internet, other], InterfaceTable([.loopback, .cable])))
        #expect(core.health.lastAudit == .milliseconds(30_050) && core.health.lastFailure == nil)
    }

    @Test func anAuditThatIsDueInAFloodIsMadeAfterIt() {
        var core = core()
        let route = NetworkEvent.route(RouteChange(.all(.ipv4), interface: 2))
        var plan = core.receive(NetworkEventBatch([route], now: .microseconds(29_999_500), wallTime: .zero))
        _ = core.conclude(plan, answers([.internet, other]))
        plan = core.receive(NetworkEventBatch([route], now: .microseconds(30_000_001), wallTime: .zero, hasMore: true))
        #expect(plan.questions.isEmpty)
        _ = core.conclude(plan, MonitorCore.Answers())
        plan = core.receive(NetworkEventBatch(now: .milliseconds(30_002), wallTime: .zero))
        #expect(plan.isAudit && plan.needsInterfaces)
    }

    /// What a message says of one family is not asked of the other; a link, or a table that was read anew, concerns both.
    @Test func onlyTheFamilyIsAskedAboutThatAMessageNames() {
        var core = core()
        var now = Duration.seconds(1)
        let ipv4 = NetworkEvent.route(RouteChange(.all(.ipv4), interface: 2))
        let ipv6 = NetworkEvent.route(RouteChange(.all(.ipv6), interface: 2))
        let address = NetworkEvent.address(held("2001:db8::10/64"), interface: 2)
        let cases: [([NetworkEvent], FamilySet)] = [
            ([ipv4], FamilySet(.ipv4)), ([ipv6], FamilySet(.ipv6)), ([address], FamilySet(.ipv6)), ([ipv4, ipv6], .all),
            ([.link(.cable)], .all), ([ipv4, .rule(isRemoval: false)], .all), ([ipv4, .overrun], .all),
            ([.addressRemoved(held("192.0.2.10/24"), interface: 2)], .all),
        ]
        for (events, families) in cases {
            let plan = core.receive(NetworkEventBatch(events, now: BootInstant(sinceBoot: now), wallTime: .zero))
            #expect(plan.questions.first?.scope == .internet && plan.questions.first?.families == families, "\(events)")
            let table = plan.needsInterfaces ? InterfaceTable([.loopback, .cable]) : nil
            _ = core.conclude(plan, answers(plan.questions.map(\.scope), table))
            now += .seconds(1)
            while let wait = core.conclude(
                core.receive(NetworkEventBatch(now: BootInstant(sinceBoot: now), wallTime: .zero)), answers([.internet])
            ).wait,
                wait < .seconds(1)
            {
                now += wait
            }
        }
    }

    @Test func theRemovalOfTheSourceAsksForAllAddresses() {
        var core = core()
        let unused = NetworkEvent.addressRemoved(held("2001:db8::10/64"), interface: 2)
        var plan = core.receive(NetworkEventBatch([unused], now: .seconds(1), wallTime: .zero))
        #expect(!plan.needsInterfaces && !plan.questions.isEmpty)
        _ = core.conclude(plan, answers([.internet, other]))
        let source = NetworkEvent.addressRemoved(held("192.0.2.10/24"), interface: 2)
        plan = core.receive(NetworkEventBatch([source], now: .seconds(2), wallTime: .zero))
        #expect(plan.needsInterfaces)
        _ = core.conclude(plan, answers([.internet, other], InterfaceTable([.loopback, .cable])))
        #expect(core.health.resyncs == 0)
    }

    @Test func aFullBatchPutsOffTheVerdictForAMillisecondAtMost() {
        var core = core()
        let route = NetworkEvent.route(RouteChange(.all(.ipv4), interface: 2))
        var plan = core.receive(NetworkEventBatch([route], now: .microseconds(500), wallTime: .zero, hasMore: true))
        #expect(plan.questions.isEmpty)
        _ = core.conclude(plan, MonitorCore.Answers())
        plan = core.receive(NetworkEventBatch([], now: .milliseconds(1), wallTime: .zero, hasMore: true))
        #expect(plan.questions.count == 2)
        var lost = MonitorCore.Answers()
        lost.paths = [MonitorCore.Answers.Verdict(.internet, .offline(.noRoute))]
        let outcome = core.conclude(plan, lost)
        #expect(outcome.transitions.first?.transition.cause.kind == .routeAdded)
    }

    @Test func afterADumpThatCannotConfirmAChangeEverythingWaitsForTheNext() {
        var core = core()
        func receive(_ milliseconds: Int, _ events: NetworkEvent...) -> MonitorCore.Plan {
            core.receive(NetworkEventBatch(events, now: .milliseconds(milliseconds), wallTime: .zero))
        }
        var plan = receive(1000, .overrun)
        #expect(plan.needsInterfaces && !plan.isTableDoubtful)
        _ = core.conclude(plan, answers([.internet, other], InterfaceTable([.loopback, .cable])))
        plan = receive(1001, .overrun)
        #expect(plan.isTableDoubtful && !plan.needsInterfaces && plan.questions.count == 2)
        var failed = MonitorCore.Answers()
        failed.failures = [ReachabilityError(.requestFailed, errno: 105, operation: "RTM_GETLINK")]
        _ = core.conclude(plan, failed)
        plan = receive(1002, .rule(isRemoval: false))
        #expect(plan.questions.isEmpty && !plan.needsInterfaces)
        _ = core.conclude(plan, MonitorCore.Answers())
        plan = receive(1051)
        #expect(plan.needsInterfaces && plan.questions.count == 2)
        _ = core.conclude(plan, answers([.internet, other], InterfaceTable([.loopback, .cable])))
        #expect(core.health.mode == .live && core.health.resyncs == 2)
    }

    @Test func dropsAndNewSocketsAreCounted() {
        var core = core()
        #expect(core.health.drops == 0 && core.health.reopens == 0)
        _ = core.receive(NetworkEventBatch(now: .seconds(1), wallTime: .zero, drops: 7, reopens: 1))
        #expect(core.health.drops == 7 && core.health.reopens == 1)
        _ = core.receive(NetworkEventBatch(now: .seconds(1), wallTime: .zero, drops: .max, reopens: .max))
        #expect(core.health.drops == .max && core.health.reopens == .max)
    }
}
