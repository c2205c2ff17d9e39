import Glibc
import Testing

@testable import CommandKit
@testable import Reachability
@testable import reachability_watch

struct ExplanationTests {
    private let loopback = NetworkInterface(
        index: 1, name: "lo", kind: .loopback, operationalState: .unknown,
        addresses: [.init(Samples.address("127.0.0.1"), prefixLength: 8)])

    private var cableOut: Explanation {
        var cable = Samples.cable
        cable.hasCarrier = false
        cable.operationalState = .down
        cable.addresses.append(.init(Samples.address("2001:db8::10"), prefixLength: 64, isTentative: true))
        let spare = NetworkInterface(index: 3, name: "eth1", isUp: false, hasCarrier: false, operationalState: .down)
        let query = RouteQuery(to: Samples.address("198.41.0.4"), mark: 7)
        let pinned = RouteQuery(to: Samples.address("1.1.1.1"))
        let route = RouteVerdict.Route(interface: 2, gateway: Samples.address("192.0.2.1"), source: Samples.address("192.0.2.10"))
        return Explanation(
            scope: .internet, path: Samples.refused(by: cable), interfaces: [loopback, spare, cable],
            lookups: [
                .init(query: query, verdict: .refused(errno: ENETUNREACH), match: nil, judgement: .noWay),
                .init(
                    query: pinned, verdict: .route(route),
                    match: .route(.init(interface: 2, metric: 100, prefixLength: 32, routingProtocol: 16, scope: 253)),
                    judgement: .refused(.noCarrier)),
            ], layers: [2: .noCarrier, 3: .adminDown])
    }

    @Test func textShowsEveryStep() {
        #expect(
            ExplanationText(explanation: cableOut, style: TextStyle()).lines == [
                "internet: unsatisfied: no carrier",
                "",
                "interfaces",
                "  1 lo: loopback, up, carrier, operational state unknown, 127.0.0.1/8",
                "  3 eth1: wired, shut down, no carrier, operational state down, no addresses"
                    + " -- stops here: interface is shut down",
                "  2 eth0: wired, up, no carrier, operational state down, 192.0.2.10/24 2001:db8::10/64 (tentative)"
                    + " -- stops here: no carrier",
                "",
                "lookups",
                "  198.41.0.4 mark 0x7 -> ENETUNREACH (Network is unreachable)",
                "  1.1.1.1 -> dev eth0, gateway 192.0.2.1, source 192.0.2.10, table main, metric 100, protocol dhcp,"
                    + " scope link, matched 1.1.1.1/32: not usable: no carrier",
                "",
                "families",
                "  IPv4: unsatisfied: no carrier",
                "  IPv6: unsatisfied: no carrier",
                "",
                "missing: carrier on eth0: plug in the cable, or join a wireless network",
                "next:    ip -details link show dev eth0",
            ])
    }

    @Test func sparedMembersAreShown() {
        var explanation = cableOut
        explanation.lookups[1].judgement = .usable(FamilyPath(isSatisfied: true))
        explanation.lookups[1].notAsked = [Samples.address("64.6.64.6"), Samples.address("45.90.28.0")]
        let text = ExplanationText(explanation: explanation, style: TextStyle()).lines
        #expect(text.contains { $0.hasSuffix("matched 1.1.1.1/32: usable; not asked: 64.6.64.6, 45.90.28.0") })
        #expect(JSONValue.explanation(explanation).description.contains(#""notAsked":["64.6.64.6","45.90.28.0"]"#))
    }

    @Test func jsonShowsEveryStep() {
        let line = JSONValue.explanation(cableOut).description
        #expect(line.hasPrefix(#"{"scope":"internet","path":{"status":"unsatisfied","reason":"noCarrier","#))
        #expect(
            line.contains(
                #"{"index":3,"name":"eth1","altNames":[],"kind":"wired","up":false,"carrier":false,"operationalState":"down","#
                    + #""carrierChanges":0,"#
                    + #""stopsAt":"adminDown","addresses":[]}"#))
        #expect(line.contains(#"{"destination":"198.41.0.4","mark":7,"usable":false,"error":"ENETUNREACH","errno":101}"#))
        #expect(
            line.contains(
                #"{"destination":"1.1.1.1","usable":false,"interface":"eth0","gateway":"192.0.2.1","source":"192.0.2.10","#
                    + #""table":254,"tableName":"main","metric":100,"protocol":"dhcp","scope":"link","prefixLength":32,"#
                    + #""local":false}"#))
        #expect(line.hasSuffix(#""next":"ip -details link show dev eth0","notChecked":[]}"#))
    }

    @Test func unnamedNumbersStayNumbers() {
        var explanation = cableOut
        let route = RouteVerdict.Route(interface: 2, table: 123_456_789, metric: 0, routingProtocol: 254, scope: 77)
        explanation.lookups[1].verdict = .route(route)
        explanation.lookups[1].match = .route(route)
        let text = ExplanationText(explanation: explanation, style: TextStyle()).lines.joined()
        #expect(text.contains("table 123456789, metric 0, protocol 254, scope 77"))
        let line = JSONValue.explanation(explanation).description
        #expect(line.contains(#""table":123456789,"metric":0,"protocol":"254","scope":"77","#))
    }

    @Test(arguments: [
        (OfflineReason.adminDown, "ip link set dev eth0 up"), (.noCarrier, "ip -details link show dev eth0"),
        (.dormant, "ip -details link show dev eth0"), (.noAddress, "ip address show dev eth0"),
        (.addressTentative, "ip -6 address show dev eth0"), (.noRoute, "ip -4 route show table all; ip -4 rule show"),
        (.unreachable, "ip -4 route show table all type unreachable; ip -4 rule show"),
        (.prohibited, "ip -4 route show table all type prohibit; ip -4 rule show"),
        (.blackhole, "ip -4 route show table all type blackhole; ip -4 rule show"), (.noInterface, "ip link show"),
    ])
    func everyReasonHasACommand(_ reason: OfflineReason, _ command: String) {
        let explanation = Explanation(
            scope: .internet, path: Samples.refused(reason, by: Samples.cable), interfaces: [Samples.cable], lookups: [],
            layers: [2: reason])
        #expect(Remedy(explanation)?.command == command)
    }

    @Test func commandsUseTheFailingFamily() {
        var path = Samples.offline(.prohibited)
        path.ipv4.reason = .noRoute
        let explanation = Explanation(scope: .internet, path: path, interfaces: [], lookups: [], layers: [:])
        #expect(Remedy(explanation)?.command.hasPrefix("ip -6 route") == true)
    }

    private func remedy(
        _ scope: Scope, _ reason: OfflineReason, asking destination: String? = nil, _ failure: NameLookupFailure? = nil
    ) -> Remedy? {
        let lookups = destination.map {
            Explanation.Lookup(
                query: RouteQuery(to: Samples.address($0)), verdict: .refused(errno: ENETUNREACH), match: nil,
                judgement: .noWay)
        }
        var path = Samples.refused(reason, by: Samples.cable)
        path.nameLookupFailure = failure
        let explanation = Explanation(
            scope: scope, path: path, interfaces: [Samples.cable], lookups: lookups.map { [$0] } ?? [], layers: [2: reason])
        return Remedy(explanation)
    }

    @Test func commandsUseTheDestinationsFamily() {
        let destination = Scope.address(Samples.address("2001:db8::7"))
        #expect(remedy(destination, .noRoute)?.command == "ip -6 route show table all; ip -6 rule show")
        #expect(remedy(destination, .noAddress)?.command == "ip -6 address show dev eth0")
        #expect(
            remedy(destination, .prohibited)?.command
                == "ip -6 route show table all type prohibit; ip -6 rule show")
        #expect(remedy(.address(Samples.address("192.0.2.7")), .noAddress)?.command == "ip -4 address show dev eth0")
    }

    @Test func commandsUseInterfaceMarkAndUser() {
        var scope = Scope.address(Samples.address("2001:db8::7"))
        scope.interface = "eth0"
        #expect(remedy(scope, .noRoute, asking: "2001:db8::7")?.command == "ip -6 route show table all dev eth0; ip -6 rule show")
        scope.mark = 42
        #expect(
            remedy(scope, .noRoute, asking: "2001:db8::7")?.command
                == "ip -6 route show table all dev eth0; ip -6 rule show; ip -6 route get 2001:db8::7 oif eth0 mark 0x2a")
        scope = .internet
        (scope.mark, scope.uid) = (7, 1000)
        #expect(
            remedy(scope, .blackhole, asking: "198.41.0.4")?.command
                == "ip -4 route show table all type blackhole; ip -4 rule show; ip -4 route get 198.41.0.4 mark 0x7 uid 1000")
        scope.interface = "a;reboot"
        #expect(remedy(scope, .noRoute, asking: "198.41.0.4")?.command.contains("reboot") == false)
    }

    @Test(
        arguments: [
            (nil, "no name server answers", "getent ahosts nas.example"),
            (.notFound, "does not exist", "getent ahosts nas.example"),
            (.noAnswer, "a name server that answers", "cat /etc/resolv.conf; getent ahosts nas.example"),
            (.refused, "refuses", "cat /etc/resolv.conf; getent ahosts nas.example"),
            (.notAsked, "was not looked up yet", "getent ahosts nas.example"),
        ] as [(NameLookupFailure?, String, String)])
    func unresolvedNamesHaveTheirOwnAdvice(_ failure: NameLookupFailure?, _ words: String, _ command: String) {
        let remedy = remedy(.host("nas.example"), .unresolved, failure)
        #expect(remedy?.missing.contains(words) == true && remedy?.missing.contains("nas.example") == true)
        #expect(remedy?.command == command)
    }

    @Test(arguments: [NameLookupFailure.notFound, .noAnswer, .refused, .notAsked])
    func unresolvedNamesHideRoutes(_ failure: NameLookupFailure) {
        var path = Samples.offline(.unresolved)
        path.nameLookupFailure = failure
        let explanation = Explanation(
            scope: .host("nas.example"), path: path, interfaces: [Samples.cable], lookups: [], layers: [2: .noRoute])
        let lines = ExplanationText(explanation: explanation, style: TextStyle()).lines
        #expect(lines.first == "nas.example: unsatisfied: \(failure)")
        #expect(lines.contains("  none: \(failure)"))
        #expect(lines.last?.contains("getent ahosts nas.example") == true)
        #expect(JSONValue.explanation(explanation).description.contains(#""nameLookup":"\#(failure.rawValue)""#))
    }

    @Test(arguments: ["a;reboot", "$(id)", "-rf", "e\u{1b}[31m", "quo'te", #"x\xff"#])
    func commandsOmitNamesUnsafeInAShell(_ name: String) {
        let interface = NetworkInterface(index: 2, name: name, isUp: false)
        let explanation = Explanation(
            scope: .internet, path: Samples.refused(.adminDown, by: interface), interfaces: [interface], lookups: [],
            layers: [2: .adminDown])
        #expect(Remedy(explanation)?.command == "ip link show")
        let text = ExplanationText(explanation: explanation, style: TextStyle()).lines.joined()
        #expect(isHarmless(text))
    }

    @Test func satisfiedScopesHaveNoAdvice() {
        let explanation = Explanation(scope: .internet, path: Samples.online(), interfaces: [], lookups: [], layers: [:])
        #expect(Remedy(explanation) == nil)
        #expect(JSONValue.explanation(explanation).description.hasSuffix(#""missing":null,"next":null,"notChecked":[]}"#))
    }
}
