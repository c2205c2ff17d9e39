/// The rules that a request has to obey before it is answered.
///
/// Pure. A page of another site can make a browser on this machine send requests here. Its scripts cannot forge `Host`, `Origin`
/// and `Sec-Fetch-Site` (Fetch Standard §2.2.2): `Host` shows a name that was rebound to this machine's address, the others show
/// the page.
struct RequestGuard: Hashable {
    /// True for a Unix socket, which no browser reaches: clients send any `Host`.
    var allowsAnyHost = false

    /// The parts of a request that decide.
    struct Request: Hashable {
        var method = "GET"
        /// The `Host`; `nil` if there is none, or more than one.
        var host: String?
        var origin: String?
        /// `Sec-Fetch-Site`.
        var site: String?
        /// `Sec-Fetch-Mode`.
        var mode: String?
        /// `Sec-Fetch-Dest`.
        var destination: String?
    }

    /// The status of a refusal (RFC 9110 §15.5).
    enum Refusal: Int {
        case forbidden = 403
        case methodNotAllowed = 405
        case misdirected = 421
    }

    /// Returns the reason to refuse a request; `nil` to answer it.
    func refusal(of request: Request) -> Refusal? {
        guard let host = request.host.map({ $0.lowercased() }) else { return .misdirected }
        if !allowsAnyHost, !Self.isLoopback(host) { return .misdirected }
        // A reverse proxy with TLS keeps the host and changes the scheme.
        if let origin = request.origin?.lowercased(), origin != "http://\(host)", origin != "https://\(host)" { return .forbidden }
        // A link on another site may lead here; its scripts, images and frames may not.
        let isForeign = request.site.map { $0 != "same-origin" && $0 != "none" } ?? false
        if isForeign, request.mode != "navigate" || request.destination != "document" { return .forbidden }
        return request.method == "GET" || request.method == "HEAD" ? nil : .methodNotAllowed
    }

    /// Returns true for a loopback address or `localhost` with any port: `ssh -L` forwards from another one.
    private static func isLoopback(_ host: String) -> Bool {
        let isBracketed = host.hasPrefix("[")
        let parts = host.split(separator: isBracketed ? "]" : ":", maxSplits: 1, omittingEmptySubsequences: false)
        let port = parts.count == 2 ? parts[1].drop { isBracketed && $0 == ":" } : ""
        guard port.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return false }
        if isBracketed { return parts.count == 2 && parts[0] == "[::1" }
        return parts[0] == "localhost" || ListenAddress.isLoopbackIPv4(String(parts[0]))
    }
}
