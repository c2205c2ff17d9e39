import CBench
import Glibc

/// Network namespaces of the benchmark's own: this process is in one, a helper in the other.
///
/// Nothing is left behind: a namespace goes with its last process.
final class Network {
    /// The interface that leads out, and its other end.
    static let (near, far) = ("bench0", "bench1")
    static let gateway = "192.0.2.1"

    /// A process that does nothing but be in the other namespace.
    private let neighbour: Peer
    /// A socket for changes and look-ups.
    let socket: Int32
    /// The default route through the cable.
    let defaultRoute: bench_route

    /// Moves this process into a new namespace with a cable to the other one: 192.0.2.10/24, up, without a default route.
    init() throws {
        guard geteuid() == 0 else { throw BenchError("network namespaces need root: run it as root, or through sudo") }
        try BenchError.check(bench_new_network(), "unshare")
        neighbour = try Peer(["sleep", "infinity"], hasOwnNetwork: true)
        socket = try BenchError.check(bench_route_open(), "socket")
        let commands = [
            "ip link set lo up",
            "ip link add \(Self.near) type veth peer name \(Self.far)",
            "ip link set \(Self.far) netns \(neighbour.process)",
            "ip link set \(Self.near) up",
            "ip addr add 192.0.2.10/24 dev \(Self.near)",
        ]
        for command in commands { try Self.run(command) }
        // Now: this process may move on to another namespace, where the interface has another number.
        defaultRoute = bench_default_route(Self.gateway, Self.near)
        try runThere("ip link set \(Self.far) up")
    }

    deinit { bench_close(socket) }

    /// `true` if the kernel has a route to the internet now: one lookup.
    var isReachable: Bool { bench_truth(socket) }

    /// The namespace at the other end of the cable, as `ip link set netns` takes it.
    var neighbourName: String { "\(neighbour.process)" }

    /// Runs commands to their end.
    func run(_ commands: String...) throws { for command in commands { try Self.run(command) } }

    /// Runs commands at the other end of the cable.
    func runThere(_ commands: String...) throws {
        for command in commands { try Self.run("nsenter --net=/proc/\(neighbour.process)/ns/net \(command)") }
    }

    private static func run(_ command: String) throws {
        let code = try Peer(command.split(separator: " ").map(String.init)).wait()
        guard code == 0 else { throw BenchError("`\(command)` ended with \(code)") }
    }
}
