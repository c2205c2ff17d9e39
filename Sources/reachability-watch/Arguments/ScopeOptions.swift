import ArgumentParser
import Reachability

/// What is to be reached, and from where it is looked at.
struct ScopeOptions: ParsableArguments {
    @Option(
        name: .customLong("to"),
        help: ArgumentHelp(
            """
            What to reach: an IPv4 or IPv6 address, with %IFNAME if it is link-local, or a host's name. May be repeated. Default: \
            the internet.
            """,
            valueName: "addr|host"),
        transform: { try DestinationArgument($0) })
    var destinations: [DestinationArgument] = []

    @Option(
        help: ArgumentHelp("Ask as a socket with this firewall mark would (SO_MARK).", valueName: "n"),
        transform: { try NumberArgument($0).value })
    var mark: UInt32?

    @Option(
        help: ArgumentHelp("Ask as a socket of this user would.", valueName: "n"), transform: { try NumberArgument($0).value })
    var uid: UInt32?

    @Option(
        help: ArgumentHelp("Ask as a socket bound to this interface would (SO_BINDTODEVICE).", valueName: "name"),
        transform: { try InterfaceArgument($0).name })
    var interface: String?

    @Option(
        help: ArgumentHelp("Look at this network namespace: a name under /run/netns, or a path. Needs root.", valueName: "name"))
    var netns: String?

    func validate() throws {
        for destination in destinations {
            let text = quotation("\(destination.scope)")
            if let own = destination.interface, let interface, own != interface {
                throw ValidationError(
                    "--to \(text)%\(quotation(own)) contradicts --interface \(quotation(interface)): leave one of them out.")
            }
            if let address = destination.address, address.family == .ipv6, address.isLinkLocal,
                destination.interface ?? interface == nil
            {
                throw ValidationError("\(text) exists on every link: name the interface, as in --to \(text)%eth0.")
            }
        }
        if netns == "" { throw ValidationError("--netns takes a name; `ip netns list` shows those that exist.") }
    }

    /// What is to be reached, each once, in the order of the command line.
    var scopes: [Scope] {
        guard !destinations.isEmpty else { return [qualified(.internet, interface: interface)] }
        var seen: Set<Scope> = []
        return destinations.map { qualified($0.scope, interface: $0.interface ?? interface) }
            .filter { seen.insert($0).inserted }
    }

    /// The file of the namespace to enter.
    var namespacePath: String? {
        netns.map { $0.contains("/") ? $0 : "/run/netns/\($0)" }
    }

    private func qualified(_ scope: Scope, interface: String?) -> Scope {
        var scope = scope
        scope.mark = mark
        scope.uid = uid
        scope.interface = interface
        return scope
    }
}
