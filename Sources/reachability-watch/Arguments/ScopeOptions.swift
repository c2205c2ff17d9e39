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

/// A destination as it is written on the command line: `192.0.2.1`, `2001:db8::1`, `fe80::1%eth0` or `nas.example.org`.
struct DestinationArgument: Hashable {
    /// What is to be reached.
    let scope: Scope
    /// The address, if it is one.
    let address: IPAddress?
    /// The interface named behind the percent sign.
    let interface: String?

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        address = IPAddress(name)
        interface = parts.count == 2 ? try InterfaceArgument(String(parts[1])).name : nil
        if let address {
            scope = .address(address)
        } else {
            guard interface == nil, Self.isHostName(name) else {
                throw InvalidArgument("a destination is written like 192.0.2.1, 2001:db8::1, fe80::1%eth0 or nas.example.org")
            }
            scope = .host(name)
        }
    }

    /// Whether a name server, or /etc/hosts, could know such a name (RFC 1123 §2.1, with the underscores that are in use).
    ///
    /// What consists of digits and dots is a mistyped address: inet_aton(3) takes it for one, and so does the resolver.
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

/// The name of an interface as it is written on the command line, and as this program prints it.
struct InterfaceArgument: Hashable {
    /// The name, encoded as the library encodes names.
    let name: String

    /// Reads the text.
    ///
    /// What the kernel refuses in a name (net/core/dev.c, dev_valid_name) cannot be meant.
    init(_ text: String) throws(InvalidArgument) {
        name = unescapedFromTerminal(text)
        let isValid = !name.isEmpty && name != "." && name != ".." && !name.utf8.contains(where: Self.isRefused)
        guard isValid else { throw InvalidArgument("an interface has a name like eth0; `ip link` lists those that exist") }
        guard Self.length(name) <= Self.longest else {
            throw InvalidArgument("the name of an interface has at most \(Self.longest) bytes; `ip link` lists those that exist")
        }
    }

    /// IFNAMSIZ without the final zero byte (netdevice(7)).
    private static let longest = 15

    /// The bytes of a name that is encoded as the library encodes names.
    private static func length(_ name: String) -> Int {
        let parts = name.split(separator: "\\x", omittingEmptySubsequences: false)
        let escapes = parts.dropFirst().count { $0.utf8.prefix(2).count(where: \.isHexadecimal) == 2 }
        return name.utf8.count - 3 * escapes
    }

    private static func isRefused(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: ":") || byte == 0x20 || (9...13).contains(byte)
    }
}

extension UInt8 {
    fileprivate var isHexadecimal: Bool { Unicode.Scalar(self).properties.isASCIIHexDigit }
}
