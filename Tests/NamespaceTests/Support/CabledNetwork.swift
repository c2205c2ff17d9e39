import Foundation
import Reachability

/// A machine with two unconfigured cables, `cable0` and `cable1`, to a far end in another namespace.
///
/// Pulling a cable shuts down its far end: a veth pair loses its carrier like a real port.
final class CabledNetwork: Sendable {
    let near: Namespace
    let far: Namespace

    init() async throws {
        near = try await Namespace()
        far = try await Namespace()
        for port in 0...1 {
            try await near.ip("link add cable\(port) type veth peer name remote\(port) netns \(far.name)")
            try await far.ip("link set remote\(port) up")
        }
    }

    /// Keeps the kernel from giving a cable an IPv6 address.
    ///
    /// The end of its duplicate address detection comes a second after the cable was set up, and could be the cause of a change.
    func stopAddressGeneration(_ port: Int = 0) async throws { try await near.ip("link set cable\(port) addrgenmode none") }

    /// Adds an IPv4 address and a default route on a cable: 192.0.2.10 on the first, 198.51.100.10 on the second.
    func addIPv4(_ port: Int = 0, metric: Int = 100) async throws {
        try await near.ip(
            """
            link set cable\(port) up
            addr add \(Self.block(port)).10/24 dev cable\(port)
            route add default via \(Self.block(port)).1 dev cable\(port) metric \(metric)
            """)
    }

    /// Adds an IPv6 address, without duplicate address detection, and a default route.
    func addIPv6(_ port: Int = 0, metric: Int = 100) async throws {
        try await near.ip(
            """
            link set cable\(port) up
            addr add 2001:db8:\(port)::10/64 dev cable\(port) nodad
            route add default via 2001:db8:\(port)::1 dev cable\(port) metric \(metric)
            """)
    }

    /// Sets an IPv6 default route on a cable.
    func addIPv6Route(_ port: Int, _ options: String) async throws {
        try await near.ip("route replace default via 2001:db8:\(port)::1 dev cable\(port) \(options)")
    }

    /// Adds an IPv4 address on both cables, and a default route through both.
    func addMultipath() async throws {
        try await near.ip(
            """
            link set cable0 up
            link set cable1 up
            addr add \(Self.block(0)).10/24 dev cable0
            addr add \(Self.block(1)).10/24 dev cable1
            route add default nexthop via \(Self.block(0)).1 dev cable0 nexthop via \(Self.block(1)).1 dev cable1
            """)
    }

    /// Returns the port by which the kernel sends to an address: with ``addMultipath()`` by a hash whose seed it drew at its start.
    func port(to address: String) async throws -> Int {
        try await near.run("ip", "route", "get", address).contains("dev cable0") ? 0 : 1
    }

    /// Returns a quiet configuration in which an address of each next hop of ``addMultipath()`` stands for the internet.
    func multipathConfiguration() async throws -> ReachabilityMonitor.Configuration {
        var configuration = ReachabilityMonitor.Configuration.quiet
        configuration.ipv4Representatives = [[], []]
        for host in 1...250 {
            let address = "203.0.113.\(host)"
            let port = try await port(to: address)
            if configuration.ipv4Representatives[port].isEmpty {
                configuration.ipv4Representatives[port] = [IPAddress(address)].compactMap(\.self)
            }
            if !configuration.ipv4Representatives.contains([]) { break }
        }
        return configuration
    }

    /// Adds a bridge with the first cable, an IPv4 address and a default route.
    func addBridge() async throws {
        try await near.ip(
            """
            link add br0 type bridge forward_delay 0 stp_state 0
            link set br0 up
            link set cable0 master br0
            link set cable0 up
            addr add \(Self.block(0)).10/24 dev br0
            route add default via \(Self.block(0)).1
            """)
    }

    static func block(_ port: Int) -> String { port == 0 ? "192.0.2" : "198.51.100" }

    func pull(_ port: Int = 0) async throws { try await far.ip("link set remote\(port) down") }

    func plug(_ port: Int = 0) async throws { try await far.ip("link set remote\(port) up") }

    /// Runs a monitor in the machine while the body runs, as ``Namespace/watching(_:on:configuration:_:)`` does.
    func watching(
        _ scope: Scope = .internet, on source: (any NetworkSource)? = nil,
        configuration: ReachabilityMonitor.Configuration = .quiet, _ body: (Watcher) async throws -> Void
    ) async throws {
        try await near.watching(scope, on: source, configuration: configuration, body)
    }
}

extension Namespace {
    /// Runs a monitor in the namespace while the body runs; by default without audits, which would hide a missing event.
    func watching(
        _ scope: Scope = .internet, on source: (any NetworkSource)? = nil,
        configuration: ReachabilityMonitor.Configuration = .quiet, _ body: (Watcher) async throws -> Void
    ) async throws {
        let source = source ?? KernelNetwork(networkNamespace: path)
        let monitor = ReachabilityMonitor(source, configuration: configuration)
        let running = Task { try await monitor.run() }
        let watcher = Watcher(monitor, scope, self)
        do {
            try await watcher.start()
            try await body(watcher)
        } catch {
            running.cancel()
            throw error
        }
        running.cancel()
        try await running.value
    }
}

extension CabledNetwork {
    /// Adds a default route on a cable that has its address already.
    func addIPv4WithoutAddress(_ port: Int, metric: Int) async throws {
        try await near.ip("link set cable\(port) up\nroute add default via \(Self.block(port)).1 dev cable\(port) metric \(metric)")
    }
}

/// Helpers for tests of `reachability-watch run`.
extension CabledNetwork {
    /// Returns a machine that is online.
    static func online() async throws -> CabledNetwork {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        return network
    }

    /// Starts `reachability-watch run` in the machine, without its messages and without a terminal.
    ///
    /// The child's lines are the command's output.
    func run(_ words: String...) throws -> Child {
        try Child([WatchCommand.path, "run", "--netns", near.name, "--quiet"] + words, hasTerminal: false)
    }

    /// Starts `reachability-watch run` in the machine, without a terminal; returns once it waits for the network.
    func runUntilWaiting(_ words: String...) async throws -> Child { try await runUntilWaiting(words) }

    func runUntilWaiting(_ words: [String]) async throws -> Child {
        let child = try Child([WatchCommand.path, "run", "--netns", near.name] + words, hasTerminal: false)
        for await message in child.errors where message.hasSuffix(": waiting for it") { return child }
        throw Child.Failure(description: "run ended, or did not wait for the network")
    }

    /// Returns the path of a file that a test and a command share.
    func marker(_ name: String) -> String {
        FileManager.default.temporaryDirectory.appendingPathComponent("\(near.name)-\(name)").path
    }
}

extension ReachabilityMonitor.Configuration {
    /// Without audits: only events lead to verdicts.
    static var quiet: Self {
        var configuration = Self()
        (configuration.auditInterval, configuration.auditIntervalWhileUnsatisfied) = (nil, nil)
        return configuration
    }

    /// With quick audits while unsatisfied.
    static var audited: Self {
        var configuration = Self.quiet
        configuration.auditIntervalWhileUnsatisfied = .milliseconds(200)
        return configuration
    }
}

extension CabledNetwork {
    /// Returns true if an address of the far end answers a packet: it refuses a connection.
    func isAnswered(_ address: String = "1.1.1.1") async throws -> Bool {
        // A packet that got lost before the link was ready is sent again after 1 and 3 s.
        let connect = "import socket; socket.create_connection(('\(address)', 9), 4)"
        let program = ["ip", "netns", "exec", near.name, "python3", "-c", connect]
        return try await Child.run(program, allowFailure: true).output.contains("refused")
    }

    /// Gives the first cable's far end the addresses of a gateway and of a machine in the internet.
    ///
    /// The other cable does not answer for them (`arp_ignore`, docs/networking/ip-sysctl.rst).
    func addGateway() async throws {
        try await far.sysctl("net.ipv4.conf.all.arp_ignore", "1")
        try await far.ip("addr add 1.1.1.1/32 dev lo\naddr add 192.0.2.1/24 dev remote0")
    }

    /// Waits until the kernel has announced that the first cable lost its carrier (linkwatch_do_dev, net/core/link_watch.c).
    func untilLossIsAnnounced() async throws {
        while try await near.run("cat", "/sys/class/net/cable0/operstate").hasPrefix("up") {}
    }

    /// Returns the port by which the bridge knows the gateway; `nil` if it does not.
    func portOfGateway() throws -> String? {
        let kernel = KernelNetwork(networkNamespace: near.path)
        let links = try kernel.interfaces()
        guard let bridge = links.first(where: { $0.name == "br0" })?.index, let gateway = IPAddress("192.0.2.1") else { return nil }
        let port = try kernel.inspect(.port(bridge: bridge, interface: bridge, gateway: gateway))
        return links.first { $0.index == port }?.name
    }
}

/// Starts the program of a tun or tap device, which has carrier while it runs (docs/networking/tuntap.rst).
func holdTun(_ name: String, in namespace: Namespace, isTap: Bool = false) async throws -> Child {
    // TUNSETIFF with IFF_TUN or IFF_TAP, and IFF_NO_PI.
    let script = """
        import fcntl, os, signal, struct
        tun = os.open('/dev/net/tun', os.O_RDWR)
        fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH', b'\(name)', \(isTap ? 0x1002 : 0x1001)))
        print('ready', flush=True)
        signal.pause()
        """
    let program = try Child(["ip", "netns", "exec", namespace.name, "python3", "-c", script], hasTerminal: false)
    for await line in program.lines where line == "ready" { return program }
    throw Child.Failure(description: "there is no tun device")
}
