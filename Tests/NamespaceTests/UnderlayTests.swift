import Foundation
import Glibc
import Reachability
import Testing

/// Interfaces that stand on others, with real devices; packets are the oracle.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct UnderlayTests {
    /// A machine whose far end holds an address of the internet.
    private func network() async throws -> CabledNetwork {
        let network = try await CabledNetwork()
        try await network.addGateway()
        return network
    }

    /// A link mode changes the state, and nothing about packets.
    @Test(arguments: [["mode dormant"], ["mode dormant", "mode default"], ["state dormant"]])
    func dormantWireWorks(settings: [String]) async throws {
        let network = try await network()
        try await network.addIPv4()
        try await network.watching { watcher in
            for setting in settings { try await network.near.ip("link set cable0 \(setting)") }
            try await watcher.expect(.unsatisfied, .noCarrier, delay: Watcher.carrierDelay) { try await network.pull() }
            try await watcher.expect(.satisfied) { try await network.plug() }
            if settings == ["state dormant"] { try await network.near.ip("link set cable0 state dormant") }
            let link = try await Child.run(["ip", "-n", network.near.name, "link", "show", "dev", "cable0"]).output
            #expect(link.contains("state DORMANT") == (settings.last != "mode default"))
            #expect(try await network.isAnswered())
            #expect(try ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path)).path(to: .internet).isSatisfied)
        }
    }

    @Test func macvlanFallsWithItsParent() async throws {
        let network = try await network()
        try await network.near.ip(
            """
            link set cable0 up
            link add mac0 link cable0 type macvlan mode bridge
            link set mac0 up
            addr add 192.0.2.10/24 dev mac0
            route add default via 192.0.2.1 dev mac0
            """)
        try await network.watching { watcher in
            #expect(watcher.path.isSatisfied)
            #expect(try await network.isAnswered())
            try await network.near.ip("link set cable0 down")
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(try await !network.isAnswered())
            try await network.near.ip("link set cable0 up\nroute replace default via 192.0.2.1 dev mac0")
            while !watcher.path.isSatisfied { try await watcher.next() }
            #expect(try await network.isAnswered())
        }
    }

    @Test func tunnelFallsWithTheWayToItsFarEnd() async throws {
        let network = try await network()
        try await network.near.ip(
            """
            link set cable0 up
            addr add 192.0.2.10/24 dev cable0
            link add vx0 type vxlan id 5 remote 192.0.2.1 local 192.0.2.10 dstport 4789
            link set vx0 up
            addr add 10.5.0.2/24 dev vx0
            route add default via 10.5.0.1 dev vx0
            """)
        try await network.far.ip(
            """
            link add vx0 type vxlan id 5 remote 192.0.2.10 local 192.0.2.1 dstport 4789
            link set vx0 up
            addr add 10.5.0.1/24 dev vx0
            """)
        try await network.watching { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "vx0")
            #expect(try await network.isAnswered())
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.offlineReason == .noCarrier)
            #expect(watcher.path.description == "unsatisfied: vx0 cannot reach 192.0.2.1: cable0 has no carrier")
            #expect(try await !network.isAnswered())
            try await network.plug()
            while !watcher.path.isSatisfied { try await watcher.next() }
            #expect(try await network.isAnswered())
            // The source of the outer packets goes.
            try await network.near.ip("addr del 192.0.2.10/24 dev cable0")
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(try await !network.isAnswered())
        }
    }

    /// OpenVPN's layouts: a host route to the server, and the default route replaced or split in two.
    @Test(arguments: ["default dev tun0 metric 1", "0.0.0.0/1 dev tun0\nroute add 128.0.0.0/1 dev tun0"])
    func tunnelFallsWithItsGround(routes: String) async throws {
        let network = try await network()
        let holder = try await holdTun("tun0", in: network.near)
        defer { holder.signal(SIGKILL) }
        let isSplit = routes.contains("/1")
        try await network.near.ip(
            """
            link set cable0 up
            addr add 192.0.2.10/24 dev cable0
            route add default via 192.0.2.1
            """)
        try await network.watching { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "cable0")
            try await network.near.ip(
                """
                link set tun0 up
                addr add 10.8.0.2/24 dev tun0
                route add 203.0.113.5 via 192.0.2.1
                route add \(routes)
                """)
            if !isSplit { try await network.near.ip("route del default via 192.0.2.1") }
            while watcher.path.interface?.name != "tun0" { try await watcher.next() }
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.description == "unsatisfied: tun0 has nothing to stand on: cable0 has no carrier")
            try await network.plug()
            while !watcher.path.isSatisfied { try await watcher.next() }
            // Another cable takes over.
            try await network.addIPv4(1, metric: 300)
            let epoch = watcher.epoch
            try await network.pull()
            while watcher.epoch == epoch || !watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.interface?.name == "tun0")
        }
        // Started after the cable went, in a namespace without hardware: as if there had never been any.
        try await network.pull(1)
        #expect(try ReachabilityMonitor(KernelNetwork(networkNamespace: network.near.path)).path(to: .internet).isSatisfied)
    }

    @Test func tunnelAloneInItsNamespaceCounts() async throws {
        let network = try await CabledNetwork()
        let holder = try await holdTun("tun0", in: network.near)
        defer { holder.signal(SIGKILL) }
        try await network.near.ip("link set tun0 up\naddr add 10.8.0.2/24 dev tun0\nroute add default dev tun0")
        try await network.watching { watcher in #expect(watcher.path.isSatisfied) }
    }

    /// A bridge with the port of a virtual machine keeps its carrier when the uplink's cable is pulled.
    @Test func bridgeFallsWithTheGatewaysPort() async throws {
        let network = try await network()
        try await network.addBridge()
        try await network.near.ip(
            """
            link add guest0 type veth peer name guest1
            link set guest0 master br0
            link set guest0 up
            link set guest1 up
            """)
        while try await !network.isAnswered() {}
        try await network.watching(configuration: .audited) { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "br0")
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.description == "unsatisfied: br0 reached 192.0.2.1 by cable0, which has no carrier")
            #expect(try await !network.isAnswered())
            try await network.plug()
            while !watcher.path.isSatisfied { try await watcher.next() }
            #expect(try await network.isAnswered())
            // The gateway moves to a port of another machine.
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            try await network.near.ip("link set cable1 master br0\nlink set cable1 up")
            try await network.far.ip("addr del 192.0.2.1/24 dev remote0\naddr add 192.0.2.1/24 dev remote1")
            try await network.near.ip("neigh flush dev br0")
            while try await !network.isAnswered() {}
            while !watcher.path.isSatisfied { try await watcher.next() }
        }
    }

    @Test func gatewayInAVirtualMachineStays() async throws {
        let network = try await network()
        try await network.addBridge()
        try await network.near.ip("link set cable1 master br0\nlink set cable1 up")
        while try await !network.isAnswered() {}
        #expect(try network.portOfGateway() == "cable0")
        try await network.watching { watcher in
            try await network.pull(1)
            try await watcher.expectSilence(pulling: network) {}
        }
    }

    /// A second uplink, as under STP: nothing was heard from it yet, and it may take over.
    @Test func bridgeStandsWhileAnotherUplinkMayDo() async throws {
        let network = try await network()
        try await network.addBridge()
        // A port that is no veth, as that of a virtual machine would be.
        try await network.near.ip(
            """
            link set cable1 up
            link add mac1 link cable1 type macvlan mode passthru
            link set mac1 master br0
            link set mac1 up
            """)
        while try await !network.isAnswered() {}
        #expect(try network.portOfGateway() == "cable0")
        try await network.watching { watcher in
            try await network.pull()
            try await network.untilLossIsAnnounced()
            try await network.far.ip("addr del 192.0.2.1/24 dev remote0\naddr add 192.0.2.1/24 dev remote1")
            try await network.near.ip("neigh flush dev br0")
            while try await !network.isAnswered() {}
            try await network.near.ip("link set br0 down")
            let first = try await watcher.next()
            #expect(first.kinds == .offline && first.current.obstacle == nil, "\(first.current)")
        }
    }

    /// Without learning the bridge cannot tell the port, and counts as any other interface.
    @Test func bridgeWithoutLearningCountsByItself() async throws {
        let network = try await network()
        try await network.addBridge()
        try await network.near.ip(
            """
            link set cable0 type bridge_slave learning off
            link set cable0 type bridge_slave fdb_flush
            link add guest0 type veth peer name guest1
            link set guest0 master br0
            link set guest0 up
            link set guest1 up
            """)
        while try await !network.isAnswered() {}
        #expect(try network.portOfGateway() == nil)
        try await network.watching { watcher in
            try await network.pull()
            try await network.untilLossIsAnnounced()
            try await network.near.ip("link set br0 down")
            let first = try await watcher.next()
            #expect(first.kinds == .offline && first.current.obstacle == nil, "\(first.current)")
        }
    }

    /// The kernel's link watch announces a loss at most once a second.
    @Test func secondCableOfASwitchIsFoundAtOnce() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(0, metric: 100)
        try await network.addIPv4(1, metric: 200)
        try await network.near.sysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", "1")
        for _ in 1...5 {
            try await network.watching { watcher in
                while watcher.path.interface?.name != "cable0" { try await watcher.next() }
                try await network.far.ip("link set remote0 down\nlink set remote1 down")
                while watcher.path.isSatisfied { try await watcher.next() }
                try await network.far.ip("link set remote0 up\nlink set remote1 up")
                while watcher.path.interface?.name != "cable0" { try await watcher.next() }
            }
        }
    }

    /// The kernel does not announce that an interface which is down has lost an alternative name.
    @Test func alternativeNameLeadsToItsLastInterface() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(1)
        var scope = Scope.internet
        scope.interface = "uplink"
        try await network.near.ip("link set cable0 up\nlink property add dev cable0 altname uplink\nlink set cable0 down")
        try await network.watching(scope) { watcher in
            #expect(watcher.path.offlineReason == .adminDown)
            try await network.near.ip(
                "link property del dev cable0 altname uplink\nlink property add dev cable1 altname uplink")
            while !watcher.path.isSatisfied { try await watcher.next() }
            #expect(watcher.path.interface?.name == "cable1")
        }
    }

    @Test func interfaceIsFoundByItsAlternativeName() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let long = String(repeating: "e", count: 127)
        try await network.near.ip("link property add dev cable0 altname enp0s31f6 altname \(long)")
        for name in ["enp0s31f6", long] {
            var scope = Scope.internet
            scope.interface = name
            try await network.watching(scope) { watcher in
                #expect(watcher.path.isSatisfied && watcher.path.interface?.alternativeNames == ["enp0s31f6", long])
                try await network.near.ip("link property del dev cable0 altname \(name)")
                while watcher.path.isSatisfied { try await watcher.next() }
                #expect(watcher.path.description == "unsatisfied: there is no interface named \(name)")
                try await network.near.ip("link property add dev cable0 altname \(name)")
                while !watcher.path.isSatisfied { try await watcher.next() }
                try await network.near.ip(
                    "link property del dev cable0 altname enp0s31f6 altname \(long)\n"
                        + "link property add dev cable0 altname enp0s31f6 altname \(long)")
            }
        }
    }
}
