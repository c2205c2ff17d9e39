package import Reachability

/// The address of a broker, and the files that prove who is who.
///
/// ```swift
/// let broker = try FleetBroker(
///     "mqtts://nas.local", user: "kiosk-7", passwordFile: "/etc/reachability/password", caFile: "/etc/reachability/ca.pem")
/// ```
///
/// With `mqtts` the broker has to prove its host name with a certificate that the CA file signs, or without such a file one of the
/// system's authorities. Files are read at each connection, so that they may be replaced. With `mqtt` everything, a password
/// included, is readable on the way: use it on the machine itself or within a tunnel.
public struct FleetBroker: Hashable, Sendable, CustomStringConvertible {
    /// The broker's host name or address.
    public let host: String
    /// The broker's port: 1883, or 8883 with TLS, unless the address names another one.
    public let port: UInt16
    /// True if connections are encrypted and the broker has to prove its name.
    public let usesTLS: Bool
    /// The name with which to log in; `nil` for none.
    public let user: String?
    /// The file whose first line is the password; `nil` for none.
    public let passwordFile: String?
    /// The file with the certificates of authorities that the broker's may be signed by; `nil` for the system's.
    public let caFile: String?
    /// The file with this client's certificate; `nil` for none.
    public let certificateFile: String?
    /// The file with the certificate's key, not encrypted; `nil` for none.
    public let keyFile: String?

    /// Creates the address of a broker.
    ///
    /// - Parameters:
    ///   - url: `mqtt://host[:port]`, or `mqtts://host[:port]` for TLS. A user name may precede the host: `mqtts://user@host`. An
    ///     IPv6 address stands in brackets. A password is refused, because all users of the machine could read it.
    ///   - user: The name with which to log in.
    ///   - passwordFile: The file whose first line is the password. It needs a user.
    ///   - caFile: The certificates of authorities, in PEM; by default the system's.
    ///   - certificateFile: This client's certificate, in PEM. It needs `caFile` and `keyFile`.
    ///   - keyFile: The certificate's key, in PEM.
    /// - Throws: ``FleetError/Code/invalidBroker`` with the reason.
    public init(
        _ url: String, user: String? = nil, passwordFile: String? = nil, caFile: String? = nil, certificateFile: String? = nil,
        keyFile: String? = nil
    ) throws(FleetError) {
        let address = try Self.address(url)
        (host, port, usesTLS) = (address.host, address.port, address.usesTLS)
        self.user = user ?? address.user
        (self.passwordFile, self.caFile) = (passwordFile, caFile)
        (self.certificateFile, self.keyFile) = (certificateFile, keyFile)
        if let user, let other = address.user, user != other {
            throw Self.invalid("the broker's address has another user name than the options", next: "give one of them")
        }
        guard self.user.map({ !$0.isEmpty && $0.utf8.count <= 65_535 && !$0.utf8.contains(0) }) ?? true else {
            throw Self.invalid("the user name of the broker is empty, too long, or has a zero byte", next: "use another name")
        }
        if passwordFile != nil, self.user == nil {
            throw Self.invalid("a broker's password needs a user name (MQTT 3.1.1 §3.1.2.9)", next: "give the user name too")
        }
        if !usesTLS, caFile != nil || certificateFile != nil || keyFile != nil {
            throw Self.invalid("certificates have no use without TLS", next: "write mqtts:// instead of mqtt://")
        }
        if (certificateFile == nil) != (keyFile == nil) {
            throw Self.invalid("a client's certificate and its key belong together", next: "give both files")
        }
        if certificateFile != nil, caFile == nil {
            throw Self.invalid("a client's certificate needs the file of its authority", next: "give the CA file too")
        }
        let files = [passwordFile, caFile, certificateFile, keyFile].compactMap(\.self)
        if files.contains(where: { $0.isEmpty || $0.utf8.contains(0) }) {
            throw Self.invalid("the name of a file is empty or has a zero byte", next: "give the path of a file")
        }
    }

    /// The host and port; never a user or a file.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The destination, as the monitor watches it.
    package var scope: Scope {
        var scope = Scope.host(host)
        scope.port = port
        return scope
    }

    private static func invalid(_ reason: String, next: String) -> FleetError {
        FleetError(.invalidBroker, subject: "\(reason); next: \(next)")
    }

    private static func address(_ url: String) throws(FleetError) -> (host: String, port: UInt16, usesTLS: Bool, user: String?) {
        // Errors do not repeat the address: it may hold a password.
        let form = "write mqtt://host[:port] or mqtts://host[:port]"
        guard let mark = url.range(of: "://") else { throw invalid("the broker's address has no scheme", next: form) }
        let usesTLS: Bool
        switch url[..<mark.lowerBound].lowercased() {
        case "mqtt": usesTLS = false
        case "mqtts": usesTLS = true
        default: throw invalid("the scheme of the broker's address is not mqtt or mqtts", next: form)
        }
        var rest = url[mark.upperBound...]
        var user: String?
        if let at = rest.lastIndex(of: "@") {
            let name = rest[..<at]
            guard !name.contains(":") else {
                throw invalid(
                    "the broker's address has a password, which all users of this machine can read",
                    next: "put it into a file that only you can read, and name that file")
            }
            user = String(name)
            rest = rest[rest.index(after: at)...]
        }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        var host = rest
        var portText: Substring?
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { throw invalid("the broker's address lacks a bracket", next: form) }
            host = rest[rest.index(after: rest.startIndex)..<end]
            let tail = rest[rest.index(after: end)...]
            guard tail.isEmpty || tail.hasPrefix(":"), IPAddress(String(host))?.family == .ipv6 else {
                throw invalid("the brackets of the broker's address hold no IPv6 address", next: form)
            }
            portText = tail.isEmpty ? nil : tail.dropFirst()
        } else if let colon = rest.firstIndex(of: ":") {
            (host, portText) = (rest[..<colon], rest[rest.index(after: colon)...])
        }
        let isHost = host.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !"/?#%\\[]\"'<>`".utf8.contains($0) }
        guard !host.isEmpty, host.utf8.count <= 253, isHost || IPAddress(String(host)) != nil else {
            throw invalid("the broker's address has no host that can be looked up", next: form)
        }
        let standard: UInt16 = usesTLS ? 8883 : 1883
        guard let port = portText.map({ UInt16($0) }) ?? standard, port > 0 else {
            throw invalid("the port of the broker's address is not a number from 1 to 65535", next: form)
        }
        return (String(host), port, usesTLS, user)
    }
}

extension String {
    /// Returns the first place of a text, without Foundation.
    fileprivate func range(of text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
