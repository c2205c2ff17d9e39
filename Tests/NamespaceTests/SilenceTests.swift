import Reachability
import Testing

/// Changes that must not be published.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct SilenceTests {
    @Test func containersAreNotPublished() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.watching { watcher in
            try await watcher.expectSilence(pulling: network) {
                try await network.near.ip("link add cont0 type bridge\naddr add 172.17.0.1/16 dev cont0\nlink set cont0 up")
                for number in 1...10 {
                    try await network.near.ip(
                        """
                        link add vbox\(number) type veth peer name wbox\(number)
                        link set vbox\(number) master cont0
                        link set vbox\(number) up
                        link set wbox\(number) netns \(network.far.name)
                        """)
                    try await network.far.ip("addr add 172.17.0.\(number + 1)/16 dev wbox\(number)\nlink set wbox\(number) up")
                    try await network.near.ip("route add 10.\(number).0.0/16 via 172.17.0.\(number + 1)\nlink del vbox\(number)")
                }
                try await network.near.ip("link del cont0")
            }
        }
    }

    @Test func metricsAreNotPublished() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4(0, metric: 100)
        try await network.watching { watcher in
            try await watcher.expectSilence(pulling: network) {
                for metric in [50, 25, 300] {
                    try await network.near.ip("route add default via 192.0.2.1 dev cable0 metric \(metric)")
                }
                try await network.near.ip("route del default metric 100\nroute del default metric 25")
            }
        }
    }

    @Test func unrelatedRoutesAndAddressesAreNotPublished() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.watching { watcher in
            try await watcher.expectSilence(pulling: network) {
                try await network.near.ip(
                    """
                    addr add 192.0.2.99/24 dev cable0
                    addr del 192.0.2.99/24 dev cable0
                    route add 203.0.113.0/24 via 192.0.2.1
                    route add blackhole 198.18.0.0/15
                    route del 203.0.113.0/24
                    rule add to 203.0.113.0/24 prohibit priority 77
                    link set cable0 mtu 1400
                    link set cable0 promisc on
                    """)
            }
        }
    }
}
