import CBench
import Glibc

/// Two namespaces with a cable, and a server behind the one at the far end, which is a router.
///
/// While the server's address is missing there, the router answers that there is no way: at once, so that a client that tries again
/// without a pause has the most occasions to.
final class HerdNetwork {
    static let server = "198.51.100.1"
    static let port: UInt16 = 7
    /// The number of connections that may wait for accept; more get no answer.
    static let backlog = 400
    /// The limit of concurrent attempts, each with a descriptor.
    static let mostAtOnce = 2000

    /// Requests a second.
    let rate: Int
    private let network: Network
    private let process: Peer

    init(rate: Int) throws {
        self.rate = rate
        network = try Network()
        process = try Peer([
            "nsenter", "--net=/proc/\(network.neighbourName)/ns/net", Programs.built("herd-server"), "\(Self.port)", "\(rate)",
            "\(Self.backlog)",
        ])
        try network.runThere(
            "sysctl -q -w net.ipv4.ip_forward=1",
            // By default a router complains to each host once a second only, and not often to all. Where these limits are not the
            // namespace's own (before Linux 6.13), those to all stay as they are.
            "sysctl -q -w net.ipv4.icmp_ratelimit=0",
            "sysctl -q -e -w net.ipv4.icmp_msgs_per_sec=1000000",
            "sysctl -q -e -w net.ipv4.icmp_msgs_burst=20000",
            "ip link set lo up",
            "ip addr add \(Network.gateway)/24 dev \(Network.far)",
            "ip route add default dev lo")
        try network.run(
            "ip route add default via \(Network.gateway) dev \(Network.near)",
            // Enough for the server when it is there. What has to be forwarded has come too far: the router's complaint about that
            // is EHOSTUNREACH, like that about an unreachable host, but not limited for the whole machine.
            "sysctl -q -w net.ipv4.ip_default_ttl=1")
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = min(limit.rlim_max, rlim_t(Self.mostAtOnce + 500))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        guard limit.rlim_cur >= Self.mostAtOnce + 100 else { throw BenchError("\(limit.rlim_cur) descriptors are not enough") }
    }

    var isReachable: Bool { network.isReachable }

    /// Pulls the cable.
    func pull() throws { try network.runThere("ip link set \(Network.far) down") }

    /// Plugs the cable in.
    func plug() throws { try network.runThere("ip link set \(Network.far) up") }

    /// Opens or closes the way from the router to the server.
    func lead(_ isOpen: Bool) throws { try network.runThere("ip addr \(isOpen ? "add" : "del") \(Self.server)/32 dev lo") }
}
