import Foundation
import Glibc
import Reachability
import Testing

/// Routes, rules, next hops and NETCONF.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct RouteTests {
    @Test func replacedRouteIsPublished() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.watching { watcher in
            let change = try await watcher.expect(kinds: .gatewayChanged) {
                try await network.near.ip("route replace default via 192.0.2.2 dev cable0 metric 100")
            }
            #expect(
                change.kinds == .gatewayChanged && change.epoch == 1 && change.current.gateways.map(\.description) == ["192.0.2.2"])
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
        }
    }

    @Test(arguments: [("unreachable", OfflineReason.unreachable), ("prohibit", .prohibited), ("blackhole", .blackhole)])
    func refusingDefaultRouteIsTheReason(type: String, reason: OfflineReason) async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.addIPv6()
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, reason) {
                try await network.near.ip("route add \(type) default metric 1\nroute add \(type) ::/0 metric 1")
            }
            try await watcher.expect(.satisfied) { try await network.near.ip("route del \(type) default metric 1") }
        }
    }

    @Test func halfASplitDefaultIsNotTheInternet() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
            try await network.near.ip("route add 0.0.0.0/1 via 192.0.2.1")
            let whole = try await watcher.expect(.satisfied) { try await network.near.ip("route add 128.0.0.0/1 via 192.0.2.1") }
            #expect(whole?.current.ipv4.prefixLength == 1)
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del 0.0.0.0/1") }
        }
    }

    @Test func pinnedHostRoutesAreNotTheInternet() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.near.ip("route add 1.1.1.1/32 via 192.0.2.1")
        try await network.watching { watcher in
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
            try await watcher.expect(.satisfied) { try await network.near.ip("route add 198.41.0.4/32 via 192.0.2.1") }
        }
    }

    @Test(arguments: [
        (["1.1.1.1/32", "64.6.64.6/32"], "45.90.28.0/32"), (["198.41.0.4/32", "192.5.5.241/32"], "193.0.14.129/32"),
        (["2801:1b8:10::b/128"], "2001:500:2f::f/128"),
    ])
    func blackholedAddressesAreNotTheInternet(pinned: [String], last: String) async throws {
        let network = try await CabledNetwork()
        try await last.contains(":") ? network.addIPv6() : network.addIPv4()
        for pinned in pinned { try await network.near.ip("route add blackhole \(pinned)") }
        try await network.watching { watcher in
            try await watcher.expect(.satisfied) {}
            // A whole group is out of reach.
            try await watcher.expect(.unsatisfied, .blackhole) { try await network.near.ip("route add blackhole \(last)") }
            try await watcher.expect(.satisfied) { try await network.near.ip("route del blackhole \(last)") }
        }
    }

    @Test func addressPinnedToADeadUplinkIsNotTheInternet() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip(
            "link set cable1 up\naddr add 198.51.100.10/24 dev cable1\nroute add 1.1.1.1/32 via 198.51.100.1 dev cable1")
        try await network.watching { watcher in
            #expect(watcher.path.isSatisfied)
            try await network.pull(1)
            // A reader of the link makes the kernel tell of the loss at once, and the reasons below depend on it.
            try await network.near.ip("link show cable1")
            try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull() }
            try await watcher.expect(.satisfied) { try await network.plug() }
            #expect(watcher.path.interface?.name == "cable0")
        }
    }

    @Test func linkLocalSourceBehindAGatewayWorks() async throws {
        let network = try await CabledNetwork()
        try await network.near.ip(
            "link set cable0 up\naddr add 169.254.77.1/30 dev cable0\nroute add default via 169.254.77.2 dev cable0")
        try await network.watching { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.ipv4.source == IPAddress("169.254.77.1"))
            try await watcher.expect(.unsatisfied, .noAddress) { try await network.near.ip("route replace default dev cable0") }
            try await watcher.expect(.satisfied) {
                try await network.near.ip("route replace default via 169.254.77.2 dev cable0")
            }
        }
    }

    @Test(arguments: ["198.51.100.7", "2001:db8:7::7"]) func blockThatIsLocalByRouteIsReachable(text: String) async throws {
        let network = try await CabledNetwork.online()
        let block = text.contains(":") ? "2001:db8:7::/64" : "198.51.100.0/24"
        try await network.near.ip("link set lo up\nroute add local \(block) dev lo")
        let address = try #require(IPAddress(text))
        try await network.watching(.address(address)) { watcher in
            try await watcher.expect(.satisfied) {}
            #expect(watcher.path.interface?.name == "lo")
        }
    }

    @Test func sourceThatIsLocalByRouteIsUsed() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("link set lo up\nroute add local 198.51.100.0/24 dev lo")
        try await network.watching { watcher in
            try await network.near.ip("route add default via 192.0.2.1 src 198.51.100.7")
            try await watcher.next()
            try await watcher.expect(.satisfied) {}
            #expect(watcher.path.ipv4.source == IPAddress("198.51.100.7"))
        }
    }

    @Test func deletedNexthopObjectIsOffline() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.near.ip(
            "route del default\nnexthop add id 7 via 192.0.2.1 dev cable0\nroute add default nhid 7")
        try await network.watching { watcher in
            #expect(watcher.path.status == .satisfied)
            let loss = try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("nexthop del id 7") }
            #expect(loss?.cause.detail == "nexthop 7 was removed")
        }
    }

    @Test func replacedNexthopObjectIsNoticed() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.near.sysctl("net.ipv4.nexthop_compat_mode", "0")
        try await network.near.ip(
            "route del default\nnexthop add id 7 via 192.0.2.1 dev cable0\nroute add default nhid 7")
        try await network.watching { watcher in
            // Without the compatibility mode the kernel does not announce its routes again.
            try await watcher.expect(.unsatisfied, .blackhole) { try await network.near.ip("nexthop replace id 7 blackhole") }
        }
    }

    @Test func multipathRouteSurvivesLostNextHop() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(0)
        try await network.addIPv4(1, metric: 200)
        try await network.near.ip(
            """
            route del default metric 100
            route del default metric 200
            route add default nexthop via 192.0.2.1 dev cable0 nexthop via 198.51.100.1 dev cable1
            """)
        try await network.watching { watcher in
            try await network.near.ip("link set cable0 down")
            while watcher.path.interface?.name != "cable1" { try await watcher.next() }
            let both = try await watcher.expect(.unsatisfied, .adminDown) { try await network.near.ip("link set cable1 down") }
            #expect(both?.cause.detail == "cable1 was shut down")
        }
    }

    @Test func policyRuleMayProhibitEverything() async throws {
        let network = try await CabledNetwork()
        try await network.stopAddressGeneration()
        try await network.addIPv4()
        try await network.watching { watcher in
            let loss = try await watcher.expect(.unsatisfied, .prohibited) {
                try await network.near.ip("rule add prohibit priority 10")
            }
            #expect(loss?.cause.detail == "a policy rule was added")
            let back = try await watcher.expect(.satisfied) { try await network.near.ip("rule del priority 10") }
            #expect(back?.cause.detail == "a policy rule was removed")
        }
    }

    @Test func markSelectsOtherTable() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(0)
        try await network.addIPv4(1, metric: 200)
        try await network.near.ip("route add default via 198.51.100.1 dev cable1 table 77\nrule add fwmark 7 table 77 priority 50")
        var marked = Scope.internet
        marked.mark = 7
        try await network.watching(marked) { watcher in
            #expect(watcher.path.interface?.name == "cable1" && watcher.path.ipv4.table == 77)
            try await watcher.expect(kinds: .interfaceChanged) { try await network.near.ip("rule del priority 50") }
            #expect(watcher.path.interface?.name == "cable0" && watcher.path.ipv4.table == 254)
        }
    }

    @Test func userRuleAppliesToThatUserOnly() async throws {
        let uid = Machine.otherUser
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.near.ip("rule add uidrange \(uid)-\(uid) prohibit priority 50")
        var user = Scope.internet
        user.uid = uid
        try await network.watching(user) { watcher in
            #expect(watcher.path.offlineReason == .prohibited)
            let own = try watcher.monitor.path(to: .internet)
            #expect(own.isSatisfied == (uid != geteuid()))
            try await watcher.expect(.satisfied) { try await network.near.ip("rule del priority 50") }
        }
    }

    @Test func boundScopeUsesItsInterface() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(0)
        try await network.addIPv4(1, metric: 200)
        var bound = Scope.internet
        bound.interface = "cable1"
        try await network.watching(bound) { watcher in
            #expect(watcher.path.interface?.name == "cable1")
            // Without a route the kernel assumes that the destination is on the link.
            try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default dev cable1") }
            try await watcher.expect(.unsatisfied, .noInterface) { try await network.near.ip("link set cable1 name patch1") }
        }
    }

    @Test func netconfChangesWhichRouteWins() async throws {
        let network = try await CabledNetwork()
        try await network.stopAddressGeneration()
        try await network.stopAddressGeneration(1)
        try await network.addIPv4(0, metric: 100)
        try await network.addIPv4(1, metric: 200)
        let source = KernelTap(KernelNetwork(networkNamespace: network.near.path))
        try await network.watching(on: source) { watcher in
            try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull() }
            // Otherwise a re-evaluation of the pulled cable may find the change before its own event.
            try await source.untilSettled()
            // The kernel now ignores routes without carrier.
            let back = try await watcher.expect(.satisfied) {
                try await network.near.sysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", "1")
            }
            #expect(back?.current.interface?.name == "cable1" && back?.cause.kind == .netconfChanged)
        }
    }

    /// The kernel skips such a route at once, and announces its end when it collects it, up to 30 s later.
    @Test func routeEndsWithItsLifetime() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6(1, metric: 200)
        try await network.near.ip(
            """
            link set cable0 up
            addr add 2001:db8:0::10/64 dev cable0 nodad
            route add default via 2001:db8:0::1 dev cable0 metric 100 expires 3
            """)
        try await network.watching { watcher in
            #expect(watcher.path.interface?.name == "cable0")
            let moved = try await watcher.expect(interface: "cable1") {}
            #expect(moved.cause.detail == "the lifetime of a route ended")
            // A renewed lifetime has no event.
            try await network.near.ip("route replace default via 2001:db8:0::1 dev cable0 metric 100 expires 2")
            try await watcher.expect(interface: "cable0") {}
            try await network.near.ip("route change default via 2001:db8:0::1 dev cable0 metric 100 expires 4")
            try await watcher.expect(interface: "cable1") {}
            try await network.near.ip(
                """
                route replace default via 2001:db8:0::1 dev cable0 metric 100 expires 2
                route del default via 2001:db8:1::1 dev cable1
                """)
            let lost = try await watcher.expect(.unsatisfied, .noRoute, delay: .seconds(3)) {}
            #expect(lost?.cause.detail == "the lifetime of a route ended")
        }
    }

    /// The lifetime counts of each route that decides: of a half, of one in use already, and of one that fails.
    @Test func everyRouteThatDecidesEndsWithItsLifetime() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6(0)
        try await network.addIPv6(1, metric: 200)
        try await network.watching { watcher in
            #expect(watcher.path.interface?.name == "cable0")
            // The same way as before, for the second group of representatives only.
            try await network.near.ip(
                """
                route add 2001:503::/32 via 2001:db8:0::1 dev cable0
                route add 2801::/16 via 2001:db8:0::1 dev cable0 expires 2
                route del default via 2001:db8:0::1 dev cable0
                route del default via 2001:db8:1::1 dev cable1
                """)
            while watcher.path.isSatisfied { try await watcher.next() }
            try await network.near.ip("route del 2001:503::/32")
            try await watcher.expect(interface: "cable1") { try await network.addIPv6Route(1, "metric 200") }
            // A route in use gets an end.
            try await watcher.expect(interface: "cable0") { try await network.addIPv6Route(0, "metric 100") }
            try await network.addIPv6Route(0, "metric 100 expires 2")
            try await watcher.expect(interface: "cable1") {}
            // One over a pulled cable stands before one that works.
            try await watcher.expect(interface: "cable0") { try await network.addIPv6Route(0, "metric 100 expires 4") }
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            let back = try await watcher.expect(interface: "cable1") {}
            #expect(back.cause.detail == "the lifetime of a route ended")
        }
    }

    /// The kernel is asked by a datagram socket for the source of a bound one.
    @Test func ruleForDatagramsSaysNothingAboutABoundStream() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv6()
        try await network.near.ip("route add default via 2001:db8:0::1 dev cable0 table 78")
        try await network.near.run("ip", "-6", "rule", "add", "priority", "100", "ipproto", "udp", "lookup", "78")
        var scope = Scope.internet
        scope.interface = "cable0"
        try await network.watching(scope) { watcher in
            #expect(watcher.path.isSatisfied)
            try await watcher.expect(.unsatisfied, .noRoute) {
                try await network.near.ip("route del default via 2001:db8:0::1 dev cable0 metric 100")
            }
        }
        scope.transport = .udp
        try await network.watching(scope) { watcher in #expect(watcher.path.isSatisfied) }
    }

    /// A route makes a block local, and with it the source of another route.
    @Test func sourceEndsWithTheRouteThatMakesItLocal() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let local = "local 203.0.113.0/24 dev lo"
        try await network.near.ip(
            "route add \(local)\nroute replace default via 192.0.2.1 dev cable0 metric 100 src 203.0.113.7")
        try await network.watching { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.ipv4.source == IPAddress("203.0.113.7"))
            for _ in 0..<2 {
                try await watcher.expect(.unsatisfied, .noAddress) { try await network.near.ip("route del \(local)") }
                try await watcher.expect(.satisfied) { try await network.near.ip("route add \(local)") }
            }
        }
    }

    /// Rules that send each source by its own cable (policy routing) hide the next hops from a lookup with that source.
    @Test func nextHopsAreThoseOfTheLookupWithoutASource() async throws {
        let network = try await CabledNetwork()
        try await network.addMultipath()
        for port in [0, 1] {
            try await network.near.ip(
                """
                route add default via \(CabledNetwork.block(port)).1 dev cable\(port) table \(100 + port)
                rule add from \(CabledNetwork.block(port)).10 lookup \(100 + port)
                """)
        }
        try await network.watching(configuration: network.multipathConfiguration()) { watcher in
            for port in [1, 0] {
                try await network.pull(port)
                while watcher.path.ipv4.partialReason != .noCarrier { try await watcher.next() }
                #expect(watcher.path.isSatisfied && watcher.path.ipv4.interface?.name == "cable\(1 - port)")
                try await network.plug(port)
                while watcher.path.ipv4.partialReason != nil { try await watcher.next() }
            }
        }
    }

    /// The kernel chooses a next hop by a hash of the addresses: with one that is dead, part of the internet is lost.
    @Test func oneWorkingNextHopIsTheInternetInPart() async throws {
        let network = try await CabledNetwork()
        try await network.addMultipath()
        try await network.watching(configuration: network.multipathConfiguration()) { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.ipv4.partialReason == nil)
            for port in [1, 0] {
                try await network.pull(port)
                while watcher.path.ipv4.partialReason != .noCarrier { try await watcher.next() }
                #expect(watcher.path.isSatisfied && watcher.path.description.hasSuffix("some IPv4 connections fail: no carrier"))
                #expect(watcher.path.ipv4.interface?.name == "cable\(1 - port)")
                try await network.plug(port)
                while watcher.path.ipv4.partialReason != nil { try await watcher.next() }
                #expect(watcher.path.isSatisfied)
            }
            // The kernel leaves out the next one that dies if it is told to.
            try await network.near.sysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", "1")
            try await network.pull(0)
            while watcher.path.interface?.name != "cable1" { try await watcher.next() }
            #expect(watcher.path.ipv4.partialReason == nil)
            try await network.pull(1)
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.offlineReason != nil)
        }
    }

    /// Where the hash is of ports, too, each connection to an address has its own next hop.
    @Test(arguments: [0, 1]) func portsMayDecideAboutANextHop(policy: Int) async throws {
        let network = try await CabledNetwork()
        try await network.near.sysctl("net.ipv4.fib_multipath_hash_policy", "\(policy)")
        try await network.addMultipath()
        let addresses = (1...8).map { "203.0.113.\($0)" }
        let holding = addresses.map { "addr add \($0)/32 dev lo" }.joined(separator: "\n")
        try await network.far.ip(holding + "\naddr add 192.0.2.1/24 dev remote0")
        try await network.pull(1)
        let monitor = ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path))
        var reached: Set<Bool> = []
        for address in addresses {
            let path = try monitor.path(to: .address(#require(IPAddress(address))))
            // Twelve connections from other ports, all at once: those that arrive are refused.
            let connect = """
                import errno, select, socket
                ends = [socket.socket() for _ in range(12)]
                for end in ends:
                    end.setblocking(False)
                    end.connect_ex(('\(address)', 9))
                waiting, errors = set(ends), []
                while ready := select.select([], list(waiting), [], 0.5)[1]:
                    waiting -= set(ready)
                    errors += [end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for end in ready]
                print(errors.count(errno.ECONNREFUSED))
                """
            let output = try await Child.run(["ip", "netns", "exec", network.near.name, "python3", "-c", connect]).output
            let arrived = try #require(Int(output.trimmingCharacters(in: .whitespacesAndNewlines)))
            reached.insert(arrived > 0)
            #expect(path.isSatisfied == (arrived > 0) && path.isPartial == (0 < arrived && arrived < 12), "\(address): \(arrived)")
        }
        #expect(reached == (policy == 0 ? [true, false] : [true]))
    }

    /// With fib_multipath_use_neigh the kernel leaves out a gateway that does not answer.
    @Test func gatewayThatFailsIsLeftAtOnce() async throws {
        let network = try await CabledNetwork()
        try await network.far.ip("addr add 192.0.2.1/24 dev remote0\nlink set lo up")
        try await network.near.sysctl("net.ipv4.fib_multipath_use_neigh", "1")
        try await network.addMultipath()
        let kernel = KernelNetwork(networkNamespace: network.near.path)
        let candidates = (1...60).compactMap { IPAddress("203.0.113.\($0)") }
        let scope = try Scope.address(
            #require(try candidates.first { try ReachabilityMonitor(kernel).path(to: .address($0)).interface?.name == "cable1" }))
        try await network.watching(scope) { watcher in
            #expect(watcher.path.interface?.name == "cable1")
            // No machine has that address: a packet makes the kernel ask for the gateway, three times in three seconds.
            let send = "import socket; socket.socket(2, 2).sendto(b'x', ('\(scope)', 9))"
            try await Child.run(["ip", "netns", "exec", network.near.name, "python3", "-c", send])
            let moved = try await watcher.expect(interface: "cable0") {}
            #expect(moved.cause.detail == "gateway 198.51.100.1 does not answer")
            #expect(watcher.path.ipv4.gateway == IPAddress("192.0.2.1") && watcher.path.ipv4.source == IPAddress("192.0.2.10"))
            try await network.far.ip("addr add 198.51.100.1/24 dev remote1")
            let ping = "import socket; socket.socket(2, 2).sendto(b'x', ('198.51.100.1', 9))"
            try await Child.run(["ip", "netns", "exec", network.near.name, "python3", "-c", ping])
            let back = try await watcher.expect(interface: "cable1") {}
            #expect(back.cause.detail == "gateway 198.51.100.1 answers again")
            #expect(watcher.path.ipv4.gateway == IPAddress("198.51.100.1"))
            #expect(watcher.path.ipv4.source == IPAddress("198.51.100.10"))
        }
    }

    /// Two default routes of equal metric, as advertised or as next hops of one route.
    @Test(arguments: [true, false]) func routerThatDiesIsLeftAtOnce(isAdvertised: Bool) async throws {
        let network = try await CabledNetwork()
        // A neighbour without the flag of a router ends its advertised route (RFC 4861 §7.3.3).
        try await network.far.sysctl("net.ipv6.conf.all.forwarding", "1")
        for port in 0...1 {
            for (key, value) in [("retrans_time_ms", 20), ("base_reachable_time_ms", 200), ("delay_first_probe_time", 0)] {
                try await network.near.sysctl("net.ipv6.neigh.cable\(port).\(key)", "\(value)")
            }
            for (key, value) in [("accept_dad", 0), ("router_solicitations", 0), ("accept_ra", 2)] {
                try await network.near.sysctl("net.ipv6.conf.cable\(port).\(key)", "\(value)")
            }
            try await network.far.ip("addr add fe80::\(port + 1)/64 dev remote\(port) nodad")
            try await network.near.ip("link set cable\(port) up")
        }
        if isAdvertised {
            while try await network.near.run("ip", "-6", "route").components(separatedBy: "default").count < 3 {
                for port in 0...1 { try await network.far.run("python3", "-c", Self.advertisement(by: port)) }
            }
        } else {
            try await network.near.ip(
                """
                addr add 2001:db8:0::10/64 dev cable0 nodad
                addr add 2001:db8:1::10/64 dev cable1 nodad
                route add default nexthop via fe80::1 dev cable0 nexthop via fe80::2 dev cable1
                """)
        }
        func poke(_ port: Int) async throws {
            let address = "('fe80::\(port + 1)', 9, 0, socket.if_nametoindex('cable\(port)'))"
            try await network.near.run("python3", "-c", "import socket; socket.socket(10, 2).sendto(b'x', \(address))")
        }
        for port in 0...1 { try await poke(port) }
        try await network.watching { watcher in
            let port = watcher.path.interface?.name == "cable0" ? 0 : 1
            func expect(_ port: Int, _ location: SourceLocation = #_sourceLocation) {
                let block = IPPrefix(IPAddress("2001:db8:\(port)::") ?? IPAddress(family: .ipv6, value: 0), length: 64)
                #expect(watcher.path.ipv6.gateway == IPAddress("fe80::\(port + 1)"), sourceLocation: location)
                #expect(watcher.path.ipv6.source.map(block.contains) == true, sourceLocation: location)
            }
            expect(port)
            try await network.far.ip("addr del fe80::\(port + 1)/64 dev remote\(port)")
            let moved = try await watcher.expect(interface: "cable\(1 - port)") { try await poke(port) }
            #expect(moved.cause.detail == "gateway fe80::\(port + 1) does not answer")
            expect(1 - port)
            try await network.far.ip("addr add fe80::\(port + 1)/64 dev remote\(port) nodad")
            let back = try await watcher.expect(interface: "cable\(port)") { try await poke(port) }
            #expect(back.cause.detail == "gateway fe80::\(port + 1) answers again")
            expect(port)
        }
    }

    /// Returns a program that sends a router advertisement with a prefix (RFC 4861 §4.2).
    private static func advertisement(by port: Int) -> String {
        """
        import socket, struct
        index = socket.if_nametoindex('remote\(port)')
        sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        sender.bind(('fe80::\(port + 1)', 0, 0, index))
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        router = struct.pack('!BBHBBHII', 134, 0, 0, 64, 0, 1800, 0, 0)
        prefix = struct.pack('!BBBBIII', 3, 4, 64, 0xc0, 7200, 3600, 0) + socket.inet_pton(socket.AF_INET6, '2001:db8:\(port)::')
        sender.sendto(router + prefix, ('ff02::1', 0, 0, index))
        """
    }
}
