import CommandKit
import Reachability
import ReachabilityTesting
import ReachableFleet
import TestSupport
import Testing

@testable import reachability_service

/// The membership of a service.
@Suite(.timeLimit(.minutes(10)))
struct ServedFleetTests {
    private func withService(
        _ body:
            @Sendable (TestWorld, SimulatedFleet, ServedFleet, _ messages: Recorder<String>, _ changes: Recorder<String>)
            async throws -> Void
    ) async throws {
        try await TestWorld().run { world in
            let (fleet, node) = (SimulatedFleet(world), try FleetName("kiosk"))
            let (messages, changes) = (Recorder<String>(), Recorder<String>())
            let served = ServedFleet(
                try fleet.member(node), node: node, broker: "the broker", say: { messages.record($0) })
            let running = world.start {
                await served.run(onChange: { changes.record("changed") }, onRetryNow: { "2 jobs are tried" })
            }
            await world.clock.advance(by: .seconds(5))
            try await body(world, fleet, served, messages, changes)
            running.cancel()
            await running.value
        }
    }

    @Test func theMachineIsAnnounced() async throws {
        try await withService { world, fleet, served, messages, changes in
            #expect(messages.value == ["announced as kiosk at the site site, by the broker the broker"])
            #expect(served.snapshot().picture.nodes.map(\.description) == ["kiosk online"])
            let before = changes.value.count
            fleet.say(.offline, of: try FleetName("nas"))
            await world.settle()
            #expect(changes.value.count > before)
            #expect(served.snapshot().counts.filter { $0.count > 0 }.map(\.state) == [.online, .offline])
        }
    }

    @Test func retryNowActsAndOtherTriggersAreNamed() async throws {
        try await withService { world, fleet, served, messages, _ in
            let asker = try fleet.member(nil)
            let running = world.start { await asker.run() }
            await world.clock.advance(by: .seconds(1))
            for name in ["retry-now", "dance"] {
                let trigger = try FleetName(name)
                _ = world.start { try await asker.trigger(trigger) }
                await world.clock.advance(by: .seconds(10))
            }
            running.cancel()
            await running.value
            #expect(
                messages.value.dropFirst() == [
                    "the fleet's trigger retry-now: 2 jobs are tried", "the fleet's trigger dance: it has no meaning here",
                ])
        }
    }

    @Test func anUnknownFleetHasAProblemAndNoOfflineNodes() async throws {
        try await withService { world, fleet, served, _, _ in
            fleet.stopBroker()
            await world.clock.advance(by: .seconds(100))
            let snapshot = served.snapshot()
            #expect(!snapshot.isConnected && !snapshot.picture.isCurrent && snapshot.problem != nil)
            #expect(snapshot.counts.filter { $0.count > 0 }.map(\.state) == [.unknown])
            fleet.startBroker()
            await world.clock.advance(by: .seconds(10))
            #expect(served.snapshot().problem == nil && served.snapshot().isConnected)
        }
    }

    @Test func aNameInUseIsSaidOnceAndShown() async throws {
        try await withService { world, fleet, served, messages, _ in
            let rival = try fleet.member(FleetName("kiosk"))
            let running = world.start { await rival.run() }
            await world.clock.advance(by: .seconds(200))
            running.cancel()
            await running.value
            #expect(messages.value.count { $0.contains("another machine is announced as kiosk") && $0.contains("next: ") } == 1)
            #expect(served.snapshot().problem?.contains("another machine is announced as kiosk") == true)
        }
    }

    @Test func aMachineWhoseWordsAreDroppedIsNotAnnounced() async throws {
        try await TestWorld().run { world in
            let (fleet, node, messages) = (SimulatedFleet(world), try FleetName("kiosk"), Recorder<String>())
            fleet.dropMessages(of: node)
            var configuration = FleetMember.Configuration()
            configuration.logger = FleetLog.logger { messages.record($1) }
            let served = ServedFleet(
                try fleet.member(node, configuration: configuration), node: node, broker: "the broker",
                say: { messages.record($0) })
            let running = world.start { await served.run(onChange: {}, onRetryNow: { "" }) }
            await world.clock.advance(by: .seconds(30))
            #expect(messages.value.count == 1 && messages.value[0].contains("shows them to no one"), "\(messages.value)")
            #expect(served.snapshot().problem == messages.value.first)
            running.cancel()
            await running.value
        }
    }

    // MARK: - The snapshot

    private func snapshot(_ nodes: [FleetNode]) throws -> FleetSnapshot {
        FleetSnapshot(
            node: try FleetName("nas"), site: try FleetName("home"), broker: "192.0.2.1:1883",
            picture: FleetSamples.picture(nodes), isConnected: true)
    }

    @Test func ofManyNodesThoseInTroubleAreListed() throws {
        var nodes = try (0..<500).map { try FleetSamples.node("n\(1000 + $0)", $0 % 100 == 99 ? .lost : .online) }
        let listed = try snapshot(nodes).listed
        #expect(listed.count == 200 && listed.count { $0.state == .lost } == 5)
        #expect(listed.map(\.name) == listed.map(\.name).sorted())
        #expect(try snapshot(nodes).json.description.contains(#""more":true"#))
        nodes.removeLast(300)
        #expect(try snapshot(nodes).listed.count == 200 && snapshot(nodes).json.description.contains(#""more":false"#))
    }

    @Test func theDocumentHasAllKeys() throws {
        let json = try snapshot([FleetSamples.node("nas")]).json.description
        for text in [
            #"{"node":"nas","site":"home","broker":"192.0.2.1:1883","connected":true,"unknownSince":null,"problem":null,"#,
            #""counts":{"online":1,"degraded":0,"offline":0,"disconnected":0,"lost":0,"unknown":0},"nodes":[{"name":"nas","#,
        ] { #expect(json.contains(text), "\(json)") }
    }
}
