import Reachability
import Testing

/// Values describe themselves in the words of the command.
struct DescriptionTests {
    @Test func pathsDescribeThemselves() {
        #expect("\(NetworkPath.online())" == "satisfied via cable0, gateway 192.0.2.1, source 192.0.2.10, IPv4")
        #expect("\(NetworkPath.online(ipv6: true))" == "satisfied via cable0, gateway 192.0.2.1, source 192.0.2.10, IPv4+IPv6")
        #expect("\(NetworkPath.offline())" == "unsatisfied: no carrier")
        #expect("\(NetworkPath.unknown)" == "unknown")
        var path = NetworkPath.offline(.unresolved)
        path.nameLookupFailure = .noAnswer
        #expect("\(path)" == "unsatisfied: no name server answered")
    }

    @Test func familiesWithTwoInterfacesAreBothNamed() {
        var path = NetworkPath.online(ipv6: true)
        path.ipv6.interface = NetworkInterface.Identity(index: 3, name: "wlan0")
        #expect("\(path)".hasSuffix("IPv4+IPv6, IPv6 via wlan0"))
    }

    @Test func transitionsDescribeThemselves() {
        func transition(
            from previous: NetworkPath?, to current: NetworkPath, _ kinds: Transition.Kinds, _ cause: Cause, losses: Int = 0
        ) -> Transition {
            Transition(
                sequence: 1, epoch: 1, previous: previous, current: current, kinds: kinds, cause: cause,
                at: BootInstant(sinceBoot: .zero), wallTime: .zero, flapPenalty: 0, losses: losses)
        }
        let pulled = Cause(.linkDown, "cable0 lost carrier")
        #expect("\(pulled)" == "cable0 lost carrier")
        #expect(
            "\(transition(from: .online(), to: .offline(), .offline, pulled))" == "unsatisfied: no carrier (cable0 lost carrier)")
        #expect(
            "\(transition(from: .online(ipv6: true), to: .online(), [.familyLost, .reestablished], pulled))"
                == "satisfied: IPv6 lost, lost and regained: via cable0, gateway 192.0.2.1, source 192.0.2.10, IPv4 "
                + "(cable0 lost carrier)")
        #expect(
            "\(transition(from: .online(), to: .online(), .reestablished, pulled, losses: 37))"
                == "satisfied: regained, after 37 losses: via cable0, gateway 192.0.2.1, source 192.0.2.10, IPv4 "
                + "(cable0 lost carrier)")
        #expect(
            "\(transition(from: .online(), to: .offline(), .offline, pulled, losses: 2))"
                == "unsatisfied: after 2 losses: no carrier (cable0 lost carrier)")
        #expect("\(transition(from: nil, to: .offline(), [], Cause(.started, "watching began")))" == "unsatisfied: no carrier")
        let end = transition(from: .online(), to: .unknown, [], Cause(.ended, "the monitor ended"))
        #expect("\(end)" == "unknown: the monitor ended")
    }

    @Test(arguments: [
        (Scope.internet, "internet"), (.host("NAS.example"), "nas.example"), (.address(ip("192.0.2.7")), "192.0.2.7"),
    ])
    func scopesDescribeThemselves(_ scope: Scope, _ words: String) {
        #expect("\(scope)" == words)
        var scope = scope
        (scope.interface, scope.mark, scope.uid, scope.port) = ("eth0", 7, 1000, 443)
        #expect("\(scope)" == "\(words)%eth0 mark 0x7 uid 1000 port 443")
        scope.transport = .udp
        #expect("\(scope)" == "\(words)%eth0 mark 0x7 uid 1000 udp port 443")
    }
}
