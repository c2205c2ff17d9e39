#if MQTT
import Foundation
import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableFleet

/// Members at real brokers: `Scripts/brokers` runs them.
@Suite(.timeLimit(.minutes(2)), .blocking, .enabled(if: hasBrokers, "run them with Scripts/brokers"))
struct BrokerTests {
    // MARK: - Ends

    @Test(arguments: BrokerKind.allCases) func killedMemberIsLostAtOnce(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { _, observer in
            let probe = try ProbeMember(broker.url, "site", "nas")
            await observer.until("nas", is: .online)
            let time = await Figure.elapsed {
                probe.kill()
                await observer.until("nas", is: .lost)
            }
            Figure.report(kind, "a killed process was lost after \(time)")
        }
    }

    @Test(arguments: BrokerKind.allCases) func frozenMemberIsLostAndComesBack(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { _, observer in
            let probe = try ProbeMember(broker.url, "site", "nas", ["keep-alive=5"])
            await observer.until("nas", is: .online)
            let epoch = try #require(observer.node("nas")).epoch
            let lost = await Figure.elapsed {
                probe.freeze()
                await observer.until("nas", is: .lost)
            }
            let back = await Figure.elapsed {
                probe.thaw()
                await observer.until("nas", is: .online)
            }
            #expect(try #require(observer.node("nas")).epoch > epoch)
            Figure.report(
                kind, "with a keep-alive of 5 s a frozen process was lost after \(lost), and thawed it was back after \(back)")
        }
    }

    @Test(arguments: BrokerKind.allCases) func stoppedMemberSaysSoAndIsNeverLost(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { session, observer in
            // Unread messages would reset the connection that says goodbye.
            let foreign = try await session.client("flood")
            let flooding = Task {
                let topic = FleetTopic.trigger(TestMember.name("flood")).text(site: session.site)
                while !Task.isCancelled {
                    _ = await foreign.publish(
                        FleetMessage(topic: topic, payload: [UInt8](repeating: 1, count: 900), isRetained: false))
                }
            }
            for _ in 0..<5 {
                let probe = try ProbeMember(broker.url, "site", "nas")
                await observer.until("nas", is: .online)
                let changes = observer.changes
                let seen = Task {
                    for await change in changes {
                        if case .node(let node) = change.kind, !node.state.isConnected { return node.state }
                    }
                    return .unknown
                }
                let time = await Figure.elapsed {
                    probe.stop()
                    let state = await seen.value
                    #expect(state == .disconnected)
                }
                Figure.report(kind, "a stopped process had said so and ended after \(time)")
            }
            flooding.cancel()
            await flooding.value
            foreign.close()
        }
    }

    // MARK: - The broker

    @Test(arguments: BrokerKind.allCases, [true, false]) func pictureComesBackWithTheBroker(kind: BrokerKind, keepsStore: Bool)
        async throws
    {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { session, observer in
            let probes = try ["a", "b", "c"].map { try ProbeMember(broker.url, "site", $0) }
            for name in ["a", "b", "c"] { await observer.until(name, is: .online) }
            broker.stop()
            await observer.until { !$0.isCurrent }
            if !keepsStore { try broker.removeStore() }
            try broker.start()
            let time = await Figure.elapsed {
                await observer.until { $0.isCurrent && $0.nodes.count { $0.state == .online } == 3 }
            }
            Figure.report(kind, "\(keepsStore ? "with" : "without") its store the picture was back \(time) after the broker")
            withExtendedLifetime(probes) {}
        }
    }

    @Test(arguments: BrokerKind.allCases) func lateWillOfATakenOverSessionIsCorrected(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { session, observer in
            let deaf = DeafTransport(FleetMember.transport(try FleetBroker(broker.url)))
            let member = try session.member(TestMember.name("nas"), transport: deaf)
            let running = Task { await member.run() }
            await observer.until("nas", is: .online)
            for _ in 0..<3 {
                let before = try #require(observer.node("nas")).epoch
                let isBack = { @Sendable (picture: FleetPicture) in
                    picture.isCurrent && picture.nodes.contains { $0.state == .online && $0.epoch > before }
                }
                let time = await Figure.elapsed {
                    deaf.abandon()
                    await member.until(isBack)
                }
                // A late joiner sees the stored word only. NATS 2.9 publishes no will of such a session.
                let joiner = try session.member(nil)
                let joining = Task { await joiner.run() }
                await joiner.until(isBack)
                joining.cancel()
                await joining.value
                await observer.until("nas", is: .online)
                Figure.report(kind, "a session was taken over, and its node was back, after \(time)")
            }
            running.cancel()
            await running.value
        }
    }

    // MARK: - Names

    @Test(arguments: BrokerKind.allCases) func bothMachinesOfOneNameAreTold(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { _, observer in
            let first = try ProbeMember(broker.url, "site", "nas")
            await observer.until("nas", is: .online)
            let run = try #require(observer.node("nas")).run
            let second = try ProbeMember(broker.url, "site", "nas")
            #expect(second.line("nameInUse")?.hasSuffix("silent") == true)
            #expect(first.line("nameInUse")?.hasSuffix("renews") == true)
            await observer.until { picture in picture.nodes.contains { $0.run == run && $0.state == .online } }
        }
    }

    @Test(arguments: BrokerKind.allCases) func reinstalledNodeGoesOnCounting(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { _, observer in
            let folder = try TemporaryFolder()
            var epochs: [UInt64] = []
            for isKept in [true, true, false] {
                let probe = try ProbeMember(broker.url, "site", "nas", ["state=\(folder.path)"])
                await observer.until("nas", is: .online)
                epochs.append(try #require(observer.node("nas")).epoch)
                probe.kill()
                await observer.until("nas", is: .lost)
                if !isKept { continue }
                if epochs.count == 2 { for name in folder.names { unlink("\(folder.path)/\(name)") } }
            }
            #expect(epochs == epochs.sorted() && Set(epochs).count == 3, "\(epochs)")
        }
    }

    // MARK: - Messages

    @Test(arguments: BrokerKind.allCases) func foreignMessagesAreCountedAndBreakNothing(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { session, observer in
            let foreign = try await session.client("foreign")
            let (seed, count) = (UInt64.random(in: .min ... .max), 10_000)
            var random = SeededGenerator(seed: seed)
            let start = ContinuousClock.now
            for number in 0..<count {
                let message = Self.malformed(number, site: session.site, &random)
                #expect(await foreign.publish(message), "seed \(seed)")
            }
            let valid = FleetMessage.word(
                .online, of: TestMember.name("last"), site: session.site, epoch: 1, sequence: 1, reason: nil, since: .zero)
            #expect(await foreign.publish(try #require(valid)))
            await observer.until("last", is: .online)
            let counts = observer.counts
            #expect(counts.malformed + counts.oversized + counts.foreignVersion == count, "seed \(seed): \(counts)")
            #expect(counts.oversized > 0 && counts.foreignVersion > 0)
            #expect(observer.nodes.nodes.map(\.name.description) == ["last"])
            Figure.report(kind, "\(count) malformed messages took \(Figure.milliseconds(ContinuousClock.now - start))")
            foreign.close()
        }
    }

    private static func malformed(_ number: Int, site: FleetName, _ random: inout SeededGenerator) -> FleetMessage {
        let topics = ["a/status", "trigger/now", "b/status"]
        let payload: [UInt8] =
            switch number % 6 {
            case 0: [UInt8](Data(#"{"v":2,"epoch":"later"}"#.utf8))
            case 1: [UInt8](repeating: UInt8(ascii: "["), count: 1000)
            case 2: [UInt8](repeating: UInt8(ascii: "{"), count: number % 100 == 2 ? 200_000 : 1025)
            case 3: [UInt8](Data(#"{"v":1,"epoch":-1,"boot":"\#u{1b}[2J","seq":1,"state":"online","since":1}"#.utf8))
            default: (0..<Int.random(in: 1...300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            }
        return FleetMessage(topic: "reach/v1/\(site)/\(topics[number % 3])", payload: payload, isRetained: false)
    }

    @Test(arguments: BrokerKind.allCases) func triggerReachesOtherProcesses(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { _, observer in
            let probes = try ["a", "b"].map { try ProbeMember(broker.url, "site", $0) }
            for name in ["a", "b"] { await observer.until(name, is: .online) }
            try await observer.trigger(TestMember.name("retry"))
            for probe in probes { #expect(probe.line("trigger") == "trigger retry") }
        }
    }

    @Test(arguments: BrokerKind.allCases) func forgottenNodeIsGone(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        try await BrokerSession.run(broker) { session, observer in
            let probe = try ProbeMember(broker.url, "site", "old")
            await observer.until("old", is: .online)
            probe.kill()
            await observer.until("old", is: .lost)
            try await observer.forget(TestMember.name("old"))
            #expect(observer.node("old") == nil)
            let later = try session.member(nil)
            let running = Task { await later.run() }
            await later.until(\.isCurrent)
            #expect(later.nodes.nodes.isEmpty)
            running.cancel()
            await running.value
        }
    }

    // MARK: - Failures

    @Test func everyFailureHasASentence() async throws {
        let port = TestBroker.freePort()
        let refused = try ProbeMember("mqtt://127.0.0.1:\(port)", "site", "nas")
        let line = refused.line("log")
        #expect(line?.contains("nothing listens at 127.0.0.1:\(port); next: ") == true, "\(line ?? "")")
        refused.stop()
        let unknown = try ProbeMember("mqtt://no-such-host.invalid", "site", "nas")
        let lookup = unknown.line("log")
        #expect(lookup?.contains("no-such-host.invalid was not found: ") == true, "\(lookup ?? "")")
        unknown.stop()
    }
}
#endif
