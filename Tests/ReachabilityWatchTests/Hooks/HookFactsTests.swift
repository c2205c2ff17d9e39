import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit

/// The variables that hooks get.
struct HookFactsTests {
    private func texts(_ facts: HookFacts) -> [String: String] { facts.values.mapValues { String(decoding: $0, as: UTF8.self) } }

    @Test func anOnlineBaselineHasNoPast() {
        let facts = HookFacts(Samples.baseline(Samples.online(hasIPv6: true)), of: .internet, elapsed: nil)
        #expect(
            texts(facts) == [
                "EVENT": "baseline", "STATUS": "online", "SCOPE": "internet", "INTERFACE": "eth0", "GATEWAY": "192.0.2.1",
                "SOURCE": "192.0.2.10", "SEQUENCE": "0", "EPOCH": "1", "TIME": "2026-01-31T10:00:00.123456Z",
            ])
        #expect(facts.status == "online")
    }

    @Test func aTransitionHasReasonCauseAndDuration() {
        let transition = Samples.transition(
            7, from: Samples.online(), to: Samples.offline(), [.offline, .resynced], Samples.cableCut)
        let facts = HookFacts(transition, of: .address(Samples.address("192.0.2.7")), elapsed: .milliseconds(4250))
        #expect(
            texts(facts) == [
                "EVENT": "transition", "STATUS": "offline", "PREVIOUS_STATUS": "online", "SCOPE": "192.0.2.7",
                "REASON": "noCarrier", "KINDS": "offline resynced", "CAUSE": "eth0 lost carrier", "CAUSE_KIND": "linkDown",
                "SEQUENCE": "7", "EPOCH": "1", "TIME": "2026-01-31T10:00:00.123456Z", "DURATION": "4.250000000",
            ])
        #expect(facts.status == "offline")
    }

    @Test func withoutIPv4TheFactsAreThoseOfIPv6() {
        var path = Samples.online(hasIPv6: true)
        path.ipv4 = FamilyPath(reason: .noRoute)
        let facts = texts(HookFacts(Samples.baseline(path), of: .internet, elapsed: nil))
        #expect(facts["GATEWAY"] == "fe80::1" && facts["SOURCE"] == "2001:db8::10")
    }

    @Test func aBlindBaselineHasItsCause() {
        var transition = Samples.baseline(.unknown)
        transition.cause = Cause(.blinded, "netlink is not available")
        transition.wallTime = .zero
        let facts = texts(HookFacts(transition, of: .internet, elapsed: nil))
        #expect(facts["CAUSE"] == "netlink is not available" && facts["CAUSE_KIND"] == "blinded")
        #expect(facts["STATUS"] == "unknown" && facts["TIME"] == nil)
    }

    @Test func namesAreBytesAndSentencesAreEscaped() {
        let name = InterfaceName.text([0x1b, 0xff, 0x5c])
        let interface = NetworkInterface(index: 3, name: name)
        var scope = Scope.internet
        scope.interface = name
        let transition = Samples.transition(
            from: Samples.offline(), to: Samples.online(interface), .online, Cause(.linkUp, "\(name) got carrier"))
        let values = HookFacts(transition, of: scope, elapsed: nil).values
        #expect(values["INTERFACE"] == [0x1b, 0xff, 0x5c])
        #expect(values["SCOPE"] == Array("internet%".utf8) + [0x1b, 0xff, 0x5c])
        #expect(values["CAUSE"] == Array(#"\x1b\xff\x5c got carrier"#.utf8))
    }

    @Test func theEnvironmentHasNoStaleVariables() {
        let facts = HookFacts(Samples.baseline(Samples.offline()), of: .internet, elapsed: nil)
        let inherited = [
            "PATH=/bin", "REACHABILITY_CAUSE=old", "REACHABILITY_STATUS=old", "REACHABILITY_JOB=7", "REACHABILITY_HOOK=x",
        ]
        let variables = facts.environment(inherited: inherited.map { Array($0.utf8) }).map { String(decoding: $0, as: UTF8.self) }
        #expect(variables.prefix(3) == ["PATH=/bin", "REACHABILITY_JOB=7", "REACHABILITY_EVENT=baseline"])
        #expect(variables.contains("REACHABILITY_STATUS=offline") && variables.count == 2 + facts.values.count)
        let hook = facts.environment(inherited: [], hook: Array("/etc/h/a".utf8)).map { String(decoding: $0, as: UTF8.self) }
        #expect(hook.last == "REACHABILITY_HOOK=/etc/h/a")
    }

    @Test func everyValueHasAName() {
        let transition = Samples.transition(from: Samples.offline(), to: Samples.online(), .online, Samples.cableBack)
        #expect(Set(HookFacts(transition, of: .internet, elapsed: .zero).values.keys).isSubset(of: HookFacts.names))
    }

    @Test func theDurationIsThatOfTheStatus() {
        var clock = StatusClock()
        func transition(from: NetworkPath, to: NetworkPath, at: Int) -> Transition {
            Samples.transition(from: from, to: to, [], Samples.cableCut, at: .seconds(at))
        }
        #expect(clock.elapsed(before: Samples.baseline(Samples.online(), at: .seconds(10))) == nil)
        #expect(clock.elapsed(before: transition(from: Samples.online(), to: Samples.offline(), at: 14)) == .seconds(4))
        #expect(clock.elapsed(before: transition(from: Samples.offline(), to: Samples.offline(.noRoute), at: 15)) == .seconds(1))
        #expect(clock.elapsed(before: transition(from: Samples.offline(), to: Samples.online(), at: 20)) == .seconds(6))
        #expect(clock.elapsed(before: transition(from: Samples.online(), to: Samples.offline(), at: 19)) == .zero)
    }
}
