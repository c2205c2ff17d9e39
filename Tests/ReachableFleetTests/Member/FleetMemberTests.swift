import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

@testable import ReachableFleet

/// Members on a simulated broker, in virtual time.
@Suite(.timeLimit(.minutes(1))) struct FleetMemberTests {
    private let nas = TestMember.name("nas")
    private let laptop = TestMember.name("laptop")
    private let kiosk = TestMember.name("kiosk")

    /// Runs a body beside two members that have joined.
    private func withMembers(
        _ body: @Sendable (TestWorld, SimulatedFleet, _ nas: FleetMember, _ laptop: FleetMember) async throws -> Void
    ) async throws {
        try await TestWorld().run { world in
            let fleet = SimulatedFleet(world)
            let members = [try fleet.member(nas), try fleet.member(laptop)]
            let running = members.map { member in world.start { await member.run() } }
            await world.clock.advance(by: .seconds(5))
            try await body(world, fleet, members[0], members[1])
            for task in running { task.cancel() }
            for task in running { await task.value }
        }
    }

    private static func states(_ member: FleetMember) -> [String] {
        member.nodes.nodes.map { "\($0.name) \($0.state.rawValue)" }
    }

    @Test func membersSeeEachOther() async throws {
        try await withMembers { _, _, nas, laptop in
            for member in [nas, laptop] {
                #expect(member.isConnected && member.nodes.isCurrent && member.lastFailure == nil)
                #expect(Self.states(member) == ["laptop online", "nas online"])
                #expect(member.counts == FleetCounts())
            }
            #expect(nas.run != laptop.run)
        }
    }

    @Test func lostNetworkIsPublishedAfterItsGrace() async throws {
        try await withMembers { world, _, _, laptop in
            let seen = world.start { () -> FleetNode? in
                for await change in laptop.changes { if case .node(let node) = change.kind { return node } }
                return nil
            }
            try world.network.pull("eth0")
            await world.clock.advance(by: .seconds(10))
            let node = try #require(await seen.value)
            #expect(node.state == .offline && node.reason == "noCarrier")
            #expect(Self.states(laptop) == ["laptop offline", "nas offline"])
            try world.network.plug("eth0")
            await world.clock.advance(by: .seconds(10))
            #expect(Self.states(laptop) == ["laptop online", "nas online"])
        }
    }

    @Test func cancelledMemberSaysThatItIsGone() async throws {
        try await TestWorld().run { world in
            let fleet = SimulatedFleet(world)
            let (member, observer) = (try fleet.member(nas), try fleet.member(nil))
            let (running, watching) = (world.start { await member.run() }, world.start { await observer.run() })
            await world.clock.advance(by: .seconds(5))
            running.cancel()
            await running.value
            await world.settle()
            #expect(Self.states(observer) == ["nas disconnected"])
            #expect(!member.isConnected && !member.nodes.isCurrent)
            watching.cancel()
            await watching.value
        }
    }

    @Test func observerPublishesNothing() async throws {
        try await TestWorld().run { world in
            let fleet = SimulatedFleet(world)
            fleet.say(.online, of: nas)
            let observer = try fleet.member(nil)
            let watching = world.start { await observer.run() }
            await world.clock.advance(by: .milliseconds(499))
            #expect(!observer.nodes.isCurrent)
            await world.clock.advance(by: .milliseconds(1))
            #expect(observer.nodes.isCurrent && Self.states(observer) == ["nas online"])
            fleet.stopBroker()
            fleet.startBroker()
            await world.clock.advance(by: .seconds(60))
            #expect(observer.nodes.isCurrent)
            watching.cancel()
            await watching.value
            #expect(fleet.storedTopics == ["reach/v1/site/nas/status"])
        }
    }

    @Test func lostConnectionIsShownAndMade() async throws {
        try await withMembers { world, fleet, nas, laptop in
            fleet.loseConnection(of: self.nas)
            await world.settle()
            #expect(Self.states(laptop) == ["laptop online", "nas lost"])
            #expect(!nas.isConnected && nas.lastFailure?.code == .connectionLost)
            await world.clock.advance(by: .seconds(3))
            #expect(nas.isConnected && nas.lastFailure == nil)
            #expect(Self.states(laptop) == ["laptop online", "nas online"])
        }
    }

    @Test func deadLineEndsByKeepAlive() async throws {
        try await withMembers { world, fleet, nas, laptop in
            fleet.cut(self.nas)
            await world.clock.advance(by: .milliseconds(29_999))
            #expect(Self.states(laptop) == ["laptop online", "nas online"])
            await world.clock.advance(by: .milliseconds(1))
            #expect(Self.states(laptop) == ["laptop online", "nas lost"])
            await world.clock.advance(by: .seconds(15))
            #expect(Self.states(laptop) == ["laptop online", "nas online"])
        }
    }

    @Test func lostPathEndsTheConnection() async throws {
        try await TestWorld().run { world in
            let transport = LooseTransport()
            let member = try FleetMember(
                node: nil, site: TestMember.site, transport: transport, scope: .internet, monitor: world.monitor, bus: world.bus,
                configuration: .init(), seed: 1)
            let running = world.start { await member.run() }
            await world.clock.advance(by: .seconds(2))
            try world.network.pull("eth0")
            await world.clock.advance(by: .milliseconds(5249))
            try world.network.plug("eth0")
            await world.clock.advance(by: .seconds(2))
            #expect(member.isConnected && transport.count == 1, "a short loss ended the connection")
            try world.network.pull("eth0")
            await world.clock.advance(by: .milliseconds(5250))
            #expect(!member.isConnected && !member.nodes.isCurrent)
            await world.clock.advance(by: .seconds(60))
            #expect(transport.count == 1)
            // At once: TCP would repeat its segments after a pause that has grown.
            try world.network.plug("eth0")
            await world.settle()
            #expect(member.isConnected && transport.count == 2)
            running.cancel()
            await running.value
        }
    }

    @Test func lostNameKeepsTheConnection() async throws {
        try await TestWorld().run { world in
            try world.network.setHost("broker.example", to: "192.0.2.7")
            let (transport, scope) = (LooseTransport(), Scope.host("broker.example"))
            let member = try FleetMember(
                node: nil, site: TestMember.site, transport: transport, scope: scope, monitor: world.monitor, bus: world.bus,
                configuration: .init(), seed: 1)
            let running = world.start { await member.run() }
            await world.clock.advance(by: .seconds(2))
            #expect(member.isConnected)
            try world.network.setHost("broker.example")
            await world.clock.advance(by: .seconds(3600))
            #expect(!world.monitor.condition(for: scope).state.isSatisfied, "the name is still there")
            #expect(member.isConnected && transport.count == 1)
            running.cancel()
            await running.value
        }
    }

    @Test(arguments: [true, false]) func brokerComesBack(keepingStore: Bool) async throws {
        try await withMembers { world, fleet, nas, laptop in
            fleet.stopBroker(keepingStore: keepingStore)
            await world.clock.advance(by: .seconds(600))
            #expect(Self.states(laptop) == ["laptop unknown", "nas unknown"])
            #expect(laptop.lastFailure?.code == .unreachable)
            fleet.startBroker()
            // The longest backoff, and the pause before the first word.
            await world.clock.advance(by: .seconds(8))
            for member in [nas, laptop] { #expect(Self.states(member) == ["laptop online", "nas online"]) }
        }
    }

    @Test func bothMachinesOfOneNameAreTold() async throws {
        try await withMembers { world, fleet, first, laptop in
            let second = try fleet.member(nas)
            func told(_ member: FleetMember) -> Task<Bool?, Never> {
                world.start {
                    for await change in member.changes {
                        if case .nameInUse(_, let isSilent) = change.kind { return isSilent }
                    }
                    return nil
                }
            }
            let (firstTold, secondTold) = (told(first), told(second))
            await world.settle()
            let running = world.start { await second.run() }
            await world.clock.advance(by: .seconds(10))
            let later = await secondTold.value
            let earlier = await firstTold.value
            #expect(earlier == false && later == true)
            #expect(laptop.nodes.nodes.first { $0.name == nas }?.run == first.run)
            running.cancel()
            await running.value
        }
    }

    @Test func droppedWordsAreReported() async throws {
        try await TestWorld().run { world in
            let fleet = SimulatedFleet(world)
            fleet.dropMessages(of: nas)
            let member = try fleet.member(nas)
            let running = world.start { await member.run() }
            await world.clock.advance(by: .milliseconds(4_999))
            #expect(member.lastFailure == nil && !member.nodes.isCurrent)
            await world.clock.advance(by: .milliseconds(1))
            #expect(member.lastFailure?.code == .notHeard && member.isConnected && member.nodes.isCurrent)
            fleet.say(.online, of: nas)
            await world.clock.advance(by: .seconds(5))
            #expect(member.lastFailure?.code == .notHeard)
            running.cancel()
            await running.value
        }
    }

    @Test func eventsOfAnEndedConnectionAreDropped() async throws {
        try await TestWorld().run { world in
            let transport = LooseTransport()
            let member = try FleetMember(
                node: nil, site: TestMember.site, transport: transport, scope: nil, monitor: world.monitor, bus: world.bus,
                configuration: .init(), seed: 1)
            let running = world.start { await member.run() }
            await world.clock.advance(by: .seconds(1))
            transport.send(.ended(FleetError(.connectionLost, subject: "lost")), to: 0)
            await world.clock.advance(by: .seconds(5))
            #expect(transport.count == 2 && member.isConnected && member.nodes.isCurrent)
            let word = FleetMessage.word(
                .online, of: nas, site: TestMember.site, epoch: 1, sequence: 1, reason: nil, since: .zero)
            transport.send(.message(try #require(word)), to: 0)
            transport.send(.ended(nil), to: 0)
            await world.settle()
            #expect(member.isConnected && member.nodes.nodes.isEmpty)
            transport.send(.message(try #require(word)), to: 1)
            await world.settle()
            #expect(member.nodes.nodes.map(\.name) == [nas])
            running.cancel()
            await running.value
        }
    }

    // MARK: - Size

    @Test func membersAreCountedUnlessTheyHaveLeft() async throws {
        try await withMembers { world, fleet, nas, laptop in
            #expect(nas.size.count == 2 && laptop.size.count == 2)
            fleet.say(.lost, of: kiosk)
            await world.clock.advance(by: .seconds(5))
            #expect(laptop.size.count == 3, "it comes back with the others")
            fleet.say(.disconnected, of: kiosk)
            await world.clock.advance(by: .seconds(5))
            #expect(laptop.size.count == 2)
            fleet.stopBroker()
            await world.clock.advance(by: .seconds(60))
            #expect(laptop.size.count == 2)
        }
    }

    @Test func busOfAFleetSpreadsItsFirstJobs() async throws {
        var configuration = RetryBus.Configuration()
        configuration.fleetSize = FleetSize(1000)
        try await TestWorld(busConfiguration: configuration).run { world in
            try world.network.pull("eth0")
            await world.clock.advance(by: .seconds(10))
            let job = world.start { try await world.bus.retry(options: JobOptions(destination: "server")) { _ in } }
            await world.settle()
            try world.network.plug("eth0")
            await world.settle()
            #expect(world.bus.pending.first?.reason.hasSuffix("so that not all machines come back together") == true)
            await world.clock.advance(by: .seconds(5))
            try await job.value
        }
    }

    // MARK: - Conditions

    @Test func jobStartsWhenItsNodeIsThere() async throws {
        try await withMembers { world, fleet, _, laptop in
            let condition = laptop.condition(for: kiosk)
            let started = Rendezvous(false)
            let job = world.start {
                try await world.bus.retry(options: JobOptions(when: [condition])) { _ in started.change { $0 = true } }
            }
            await world.clock.advance(by: .seconds(120))
            #expect(!started.value)
            fleet.say(.offline, of: kiosk)
            await world.settle()
            #expect(!started.value)
            fleet.say(.degraded, of: kiosk)
            try await job.value
            #expect(started.value && condition.state.epoch == 1)
        }
    }

    @Test func levelIsKeptForAMinuteThenPolicyDecides() async throws {
        try await withMembers { world, fleet, _, laptop in
            fleet.say(.online, of: kiosk)
            await world.settle()
            let conditions = UnknownNodePolicy.allCases.map { laptop.condition(for: kiosk, whenUnknown: $0) }
            let absent = UnknownNodePolicy.allCases.map { laptop.condition(for: TestMember.name("absent"), whenUnknown: $0) }
            fleet.stopBroker()
            await world.clock.advance(by: .milliseconds(59_999))
            #expect(conditions.map(\.state.isSatisfied) == [true, true])
            #expect(absent.map(\.state.isSatisfied) == [false, false])
            await world.clock.advance(by: .milliseconds(1))
            #expect(conditions.map(\.state.isSatisfied) == [true, false])
            #expect(absent.map(\.state.isSatisfied) == [true, false])
        }
    }

    @Test func conditionIsReleasedWithItsLastUse() async throws {
        try await withMembers { _, _, _, laptop in
            var conditions = [laptop.condition(for: nas), laptop.condition(for: nas)]
            #expect(conditions[0].state.isSatisfied && laptop.conditionCount == 1)
            conditions.removeLast()
            #expect(laptop.conditionCount == 1)
            conditions = []
            #expect(laptop.conditionCount == 0)
        }
    }

    @Test func endFinishesConditionsAndStreams() async throws {
        try await TestWorld().run { world in
            let member = try SimulatedFleet(world).member(nas)
            let conditions = UnknownNodePolicy.allCases.map { member.condition(for: kiosk, whenUnknown: $0) }
            let changes = world.start { await member.changes.reduce(0) { count, _ in count + 1 } }
            let triggers = world.start { await member.triggers.reduce(0) { count, _ in count + 1 } }
            let running = world.start { await member.run() }
            await world.clock.advance(by: .seconds(5))
            running.cancel()
            await running.value
            #expect(await changes.value > 0)
            #expect(await triggers.value == 0)
            #expect(conditions.map(\.state.isFinished) == [true, true])
            #expect(conditions.map(\.state.isSatisfied) == [true, false])
            #expect(member.condition(for: kiosk).state == Condition.State(isSatisfied: true, epoch: 1, isFinished: true))
            #expect(await member.changes.reduce(0) { count, _ in count + 1 } == 0)
            // A second run does nothing.
            await member.run()
        }
    }

    // MARK: - Changes

    @Test func changesBeginWithABaselineAndHaveNoHoles() async throws {
        try await withMembers { world, fleet, _, laptop in
            let lists = (0..<3).map { _ in
                world.start {
                    var list: [FleetChange] = []
                    for await change in laptop.changes {
                        list.append(change)
                        if list.count == 4 { break }
                    }
                    return list
                }
            }
            await world.settle()
            for state in [FleetNode.State.online, .offline, .online] { fleet.say(state, of: kiosk) }
            for list in lists {
                let changes = await list.value
                #expect(changes.first?.kind == .current)
                #expect(zip(changes, changes.dropFirst()).allSatisfy { $0.sequence + 1 == $1.sequence })
                #expect(changes.last?.sequence == laptop.nodes.sequence)
            }
        }
    }

    @Test func baselineOfAMemberThatDoesNotRunIsUnknown() async throws {
        try await TestWorld().run { world in
            let member = try SimulatedFleet(world).member(nas)
            let first = await member.changes.first { _ in true }
            #expect(first == FleetChange(sequence: 0, kind: .unknown))
        }
    }

    // MARK: - Requests

    @Test func triggerReachesAllNodesOnce() async throws {
        try await withMembers { world, fleet, nas, laptop in
            let fired = Rendezvous([String]())
            let tasks = [nas, laptop].map { member in
                world.start {
                    for await trigger in member.triggers {
                        fired.change { $0.append("\(member.node?.description ?? "") \(trigger.name)") }
                    }
                }
            }
            await world.settle()
            let observer = try fleet.member(nil)
            let watching = world.start { await observer.run() }
            await world.clock.advance(by: .seconds(1))
            try await observer.trigger(TestMember.name("retry"))
            await world.clock.advance(by: .seconds(10))
            #expect(fired.value.sorted() == ["laptop retry", "nas retry"])
            watching.cancel()
            await watching.value
            for task in tasks { task.cancel() }
        }
    }

    @Test func requestsWithoutABrokerFail() async throws {
        try await TestWorld().run { world in
            let member = try SimulatedFleet(world).member(nas)
            let retry = TestMember.name("retry")
            await #expect(throws: FleetError(.notConnected, subject: "the trigger retry")) { try await member.trigger(retry) }
            await #expect(throws: FleetError(.notConnected, subject: "the end of nas")) { try await member.forget(nas) }
        }
    }

    @Test func requestsThatTheBrokerDropsFail() async throws {
        try await withMembers { world, fleet, member, _ in
            fleet.dropMessages(of: nas)
            let errors = Rendezvous([FleetError]())
            let asking = world.start {
                do throws(FleetError) { try await member.trigger(TestMember.name("retry")) } catch {
                    errors.change { $0.append(error) }
                }
                do throws(FleetError) { try await member.forget(kiosk) } catch { errors.change { $0.append(error) } }
            }
            await world.settle()
            await world.clock.advance(by: .milliseconds(9_999))
            #expect(errors.value.isEmpty)
            await world.clock.advance(by: .milliseconds(1))
            await world.clock.advance(by: .seconds(10))
            await asking.value
            #expect(errors.value.map(\.code) == [.notHeard, .notHeard])
            #expect(
                errors.value.map(\.subject).map { $0.contains("; next: let this client write reach/v1/site/") } == [true, true])
        }
    }

    @Test func stoppedMemberEndsRequests() async throws {
        try await TestWorld().run { world in
            let fleet = SimulatedFleet(world)
            fleet.dropMessages(of: nas)
            let member = try fleet.member(nas)
            let running = world.start { await member.run() }
            await world.clock.advance(by: .seconds(6))
            let asking = world.start { () -> FleetError? in
                do throws(FleetError) { try await member.forget(kiosk) } catch { return error }
                return nil
            }
            await world.settle()
            running.cancel()
            await running.value
            #expect(await asking.value?.code == .notConnected)
            await #expect(throws: FleetError(.notConnected, subject: "the end of kiosk")) { try await member.forget(kiosk) }
        }
    }

    @Test func forgottenNodeIsRemoved() async throws {
        try await withMembers { world, fleet, _, laptop in
            fleet.say(.lost, of: kiosk)
            await world.settle()
            #expect(Self.states(laptop).contains("kiosk lost"))
            try await laptop.forget(kiosk)
            await world.settle()
            #expect(!Self.states(laptop).contains("kiosk lost"))
            #expect(!fleet.storedTopics.contains("reach/v1/site/kiosk/status"))
        }
    }
}

/// Connections whose events a test sends, also after their end.
private final class LooseTransport: FleetTransport {
    typealias Receiver = @Sendable (FleetLinkEvent) -> Void

    private struct Link: FleetLink {
        let receive: Receiver

        func open() { receive(.connected) }
        func subscribe(_ filters: [String]) { receive(.subscribed) }
        func publish(_ message: FleetMessage, _ answer: (@Sendable (Bool) -> Void)?) { answer?(true) }
        func disconnect() { receive(.ended(nil)) }
        func close() { receive(.ended(nil)) }
    }

    let place = "nowhere"
    private let receivers = Mutex<[Receiver]>([])

    var count: Int { receivers.withLock(\.count) }

    func link(_ connection: FleetConnection, _ receive: @escaping Receiver) -> any FleetLink {
        receivers.withLock { $0.append(receive) }
        return Link(receive: receive)
    }

    func send(_ event: FleetLinkEvent, to index: Int) { receivers.withLock { $0[index] }(event) }
}
