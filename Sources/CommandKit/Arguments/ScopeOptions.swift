package import ArgumentParser
package import Reachability

/// The options that select scopes: destinations, and the socket properties and namespace to use.
package struct ScopeOptions: ParsableArguments {
    @Option(
        name: .customLong("to"),
        help: ArgumentHelp(
            """
            The destination: internet (the default), an IPv4 or IPv6 address, with %IFNAME if it is link-local, or a host name. \
            May be repeated.
            """,
            valueName: "addr|host"),
        completion: LiveCompletion.destinations,
        transform: { try DestinationArgument($0) })
    package var destinations: [DestinationArgument] = []

    @Option(
        help: ArgumentHelp("Look up routes for sockets with this firewall mark (SO_MARK).", valueName: "n"),
        transform: { try NumberArgument($0).value })
    package var mark: UInt32?

    @Option(
        help: ArgumentHelp("Look up routes for sockets of this user.", valueName: "n"), transform: { try NumberArgument($0).value })
    package var uid: UInt32?

    @Flag(help: "Look up routes for UDP instead of TCP, as rules may select by it; multicast destinations need it.")
    package var udp = false

    @Option(
        help: ArgumentHelp("Look up routes to this destination port, as rules may select by it.", valueName: "n"),
        transform: { try PortArgument($0).value })
    package var port: UInt16?

    @Option(
        help: ArgumentHelp("Look up routes for sockets bound to this interface (SO_BINDTODEVICE).", valueName: "name"),
        completion: LiveCompletion.interfaces,
        transform: { try InterfaceArgument($0).name })
    package var interface: String?

    @Option(
        help: ArgumentHelp("Use this network namespace: a name under /run/netns, or a path. Needs root.", valueName: "name"),
        completion: LiveCompletion.namespaces)
    package var netns: String?

    package func validate() throws {
        for destination in destinations {
            let text = quotation("\(destination.scope)")
            if let own = destination.interface, let interface, own != interface {
                throw ValidationError(
                    "--to \(text)%\(quotation(own)) contradicts --interface \(quotation(interface)); next: omit one of them")
            }
            if let address = destination.address, address.family == .ipv6, address.isLinkLocal,
                destination.interface ?? interface == nil
            {
                throw ValidationError("\(text) exists on every link; next: add the interface, as in --to \(text)%eth0")
            }
            if let address = destination.address, !udp, address.hasManyReceivers {
                throw ValidationError("\(text) has many receivers, and TCP connects to one; next: add --udp")
            }
        }
        if netns == "" { throw ValidationError("--netns is empty; next: choose a name from `ip netns list`") }
    }

    /// The scopes without duplicates, in the order of the command line.
    package var scopes: [Scope] {
        guard !destinations.isEmpty else { return [qualified(.internet, interface: interface)] }
        var seen: Set<Scope> = []
        return destinations.map { qualified($0.scope, interface: $0.interface ?? interface) }
            .filter { seen.insert($0).inserted }
    }

    /// The file of the namespace to enter; `nil` to stay.
    package var namespacePath: String? {
        netns.map { $0.contains("/") ? $0 : "/run/netns/\($0)" }
    }

    private func qualified(_ scope: Scope, interface: String?) -> Scope {
        var scope = scope
        scope.mark = mark
        scope.uid = uid
        scope.interface = interface
        scope.transport = udp ? .udp : .tcp
        scope.port = port
        return scope
    }

    /// Creates it, for the parser.
    package init() {}
}

/// The options of commands that run a monitor of this machine.
package struct MonitorOptions: ParsableArguments {
    @Flag(
        help: """
            Trust a tunnel by itself, such as one over a radio or a serial line, instead of looking for an interface that it \
            stands on.
            """)
    package var tunnelsAlone = false

    /// The monitor's configuration.
    package var configuration: ReachabilityMonitor.Configuration {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.tunnelsStandAlone = tunnelsAlone
        return configuration
    }

    /// Creates it, for the parser.
    package init() {}
}

extension IPAddress {
    /// True for a multicast address and the limited broadcast address (RFC 919).
    fileprivate var hasManyReceivers: Bool { isMulticast || family == .ipv4 && value == 0xFFFF_FFFF }
}

/// A destination on the command line: `internet`, `192.0.2.1`, `2001:db8::1`, `fe80::1%eth0` or `nas.example.org`.
package struct DestinationArgument: Hashable {
    /// The destination as a scope.
    package let scope: Scope
    /// The address; `nil` for the internet and for a host name.
    package let address: IPAddress?
    /// The interface after the percent sign.
    package let interface: String?

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        address = IPAddress(name)
        interface = parts.count == 2 ? try InterfaceArgument(String(parts[1])).name : nil
        if let address {
            scope = .address(address)
        } else if name == "\(Scope.internet)" {
            // A host of this name is `internet.` with a dot.
            scope = .internet
        } else {
            guard interface == nil, Self.isHostName(name) else {
                throw InvalidArgument(
                    "not a destination; next: write internet, 192.0.2.1, 2001:db8::1, fe80::1%eth0 or nas.example.org")
            }
            scope = .host(name)
        }
    }

    /// Returns `true` for a valid host name (RFC 1123 §2.1, with the underscores in common use).
    ///
    /// Digits and dots alone are a mistyped address: inet_aton(3), and so the resolver, would accept them as one.
    private static func isHostName(_ text: String) -> Bool {
        let name = text.hasSuffix(".") ? text.dropLast() : text[...]
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard !name.isEmpty, name.utf8.count <= 253, labels.last?.contains(where: \.isLetter) == true else { return false }
        return labels.allSatisfy { label in
            !label.isEmpty && label.utf8.count <= 63 && label.first != "-" && label.last != "-"
                && label.unicodeScalars.allSatisfy { scalar in
                    scalar.isASCII
                        && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil
                            || "-_".unicodeScalars.contains(scalar))
                }
        }
    }
}

/// The name of an interface on the command line, plain or as this program prints it.
package struct InterfaceArgument: Hashable {
    /// The name in the library's encoding.
    package let name: String

    /// Parses the text.
    ///
    /// Rejects the names that the kernel rejects (net/core/dev.c, dev_valid_name).
    package init(_ text: String) throws(InvalidArgument) {
        let typed = ForeignText(typedName: text)
        name = typed.text
        let isValid = !name.isEmpty && name != "." && name != ".." && !name.utf8.contains(where: Self.isRefused)
        guard isValid else { throw InvalidArgument("not an interface name; next: choose one from `ip link`, such as eth0") }
        guard typed.bytes.count <= Self.longest else {
            throw InvalidArgument("an interface name has at most \(Self.longest) bytes; next: choose one from `ip link`")
        }
    }

    /// ALTIFNAMSIZ without the final zero byte (linux/if.h): alternative names may be longer than others.
    private static let longest = 127

    private static func isRefused(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: ":") || byte == 0x20 || (9...13).contains(byte)
    }
}
