import Reachability

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
