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
            scope: .internet, path: Samples.offline(), interfaces: [loopback, spare, cable],
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

    @Test func chosenInterfaceIsTheOneToMend() {
        var explanation = cableOut
        // Another cable is out, too, and comes first.
        explanation.interfaces.insert(NetworkInterface(index: 3, name: "eth1", hasCarrier: false), at: 0)
        explanation.layers[3] = .noCarrier
        explanation.lookups[1].isDecisive = true
        explanation.path.ipv4 = FamilyPath(reason: .noCarrier)
        #expect(explanation.interface(stoppingAt: .noCarrier)?.name == "eth0")
    }

    @Test func jsonShowsEveryStep() {
        let line = JSONValue.explanation(cableOut).description
        #expect(line.hasPrefix(#"{"scope":"internet","path":{"status":"unsatisfied","reason":"noCarrier","#))
        #expect(
            line.contains(
                #"{"index":3,"name":"eth1","kind":"wired","up":false,"carrier":false,"operationalState":"down","carrierChanges":0,"#
                    + #""stopsAt":"adminDown","addresses":[]}"#))
        #expect(line.contains(#"{"destination":"198.41.0.4","mark":7,"usable":false,"error":"ENETUNREACH","errno":101}"#))
        #expect(
            line.contains(
                #"{"destination":"1.1.1.1","usable":false,"interface":"eth0","gateway":"192.0.2.1","source":"192.0.2.10","#
                    + #""table":254,"tableName":"main","metric":100,"protocol":"dhcp","scope":"link","prefixLength":32,"#
                    + #""local":false}"#))
        #expect(line.hasSuffix(#""next":"ip -details link show dev eth0"}"#))
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
            scope: .internet, path: Samples.offline(reason), interfaces: [Samples.cable], lookups: [], layers: [2: reason])
        #expect(Remedy(explanation)?.command == command)
    }

    /// A scene, and the words of what is missing.
    struct Scene: Sendable {
        var name: String
        var reason: OfflineReason
        var family = IPAddress.Family.ipv4
        var interface = Samples.cable
        var verdict = RouteVerdict.refused(errno: ENETUNREACH)
        var missing: String

        static let all: [Scene] = {
            var tunnel = NetworkInterface(index: 2, name: "tun0", kind: .tunnel, hasCarrier: false)
            tunnel.addresses = [.init(Samples.address("10.8.0.2"), prefixLength: 24)]
            var duplicate = Samples.cable
            duplicate.addresses = [.init(Samples.address("2001:db8::7"), prefixLength: 64, hasFailedDetection: true)]
            var silent = Samples.cable
            silent.addresses = [.init(Samples.address("fe80::7"), prefixLength: 64)]
            var bare = Samples.cable
            bare.addresses = []
            return [
                Scene(
                    name: "cable out", reason: .noCarrier, missing: "carrier on eth0: plug in the cable, or join a wireless network"
                ),
                Scene(
                    name: "VPN program gone", reason: .noCarrier, interface: tunnel,
                    missing: "the program that holds tun0: it has ended"),
                Scene(
                    name: "duplicate address", reason: .noAddress, family: .ipv6, interface: duplicate,
                    missing: "another address on eth0: another machine has 2001:db8::7, too"),
                Scene(
                    name: "IPv6 disabled", reason: .noAddress, family: .ipv6,
                    missing: "IPv6 on eth0: disable_ipv6 is set, or the MTU is below 1280"),
                Scene(
                    name: "no router", reason: .noAddress, family: .ipv6, interface: silent,
                    missing: "an address on eth0: does a router announce one?"),
                Scene(
                    name: "no lease", reason: .noAddress, interface: bare,
                    missing: "an address on eth0: is a DHCP client running?"),
                Scene(
                    name: "default to lo", reason: .noRoute, verdict: .route(.init(interface: 1)),
                    missing: "a route to another machine: this one leads to the loopback interface"),
                Scene(
                    name: "rule for main deleted", reason: .noRoute,
                    missing: "a route that the rules select, such as a default route"),
            ]
        }()
    }

    @Test(arguments: Scene.all) func remedyFollowsFromTheScene(scene: Scene) {
        let destination = Samples.address(scene.family == .ipv4 ? "198.51.100.7" : "2001:db8:7::7")
        var path = Samples.offline(scene.reason)
        path.ipv4 = FamilyPath(reason: scene.family == .ipv4 ? scene.reason : nil)
        path.ipv6 = FamilyPath(reason: scene.family == .ipv6 ? scene.reason : nil)
        var lookup = Explanation.Lookup(
            query: RouteQuery(to: destination), verdict: scene.verdict, match: nil, judgement: .noWay)
        lookup.isDecisive = true
        let explanation = Explanation(
            scope: .address(destination), path: path, interfaces: [loopback, scene.interface], lookups: [lookup],
            layers: [2: scene.reason])
        #expect(Remedy(explanation)?.missing == scene.missing, "\(scene.name)")
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
        var path = Samples.offline(reason)
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
            scope: .internet, path: Samples.offline(.adminDown), interfaces: [interface], lookups: [], layers: [2: .adminDown])
        #expect(Remedy(explanation)?.command == "ip link show")
        let text = ExplanationText(explanation: explanation, style: TextStyle()).lines.joined()
        #expect(isHarmless(text))
    }

    @Test func satisfiedScopesHaveNoAdvice() {
        let explanation = Explanation(scope: .internet, path: Samples.online(), interfaces: [], lookups: [], layers: [:])
        #expect(Remedy(explanation) == nil)
        #expect(JSONValue.explanation(explanation).description.hasSuffix(#""missing":null,"next":null}"#))
    }
}
