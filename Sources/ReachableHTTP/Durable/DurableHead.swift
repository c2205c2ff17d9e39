internal import Foundation
internal import FoundationNetworking
internal import Reachability
internal import ReachableJobs

/// The part that durable requests, uploads and downloads have in common, in the stored form that all of them have.
struct DurableHead: Codable, Hashable, Sendable {
    let url: URL
    let method: String
    let headers: [String: String]
    let idempotency: DurableIdempotency

    private static let keyHeader = "Idempotency-Key"

    private func value(of name: String) -> String? {
        headers.first { $0.key.lowercased() == name.lowercased() }?.value
    }

    private var isIdempotentMethod: Bool { HTTPRetryClassifier.idempotentMethods.contains(method) }

    /// True if the request may be sent twice: its method is idempotent, or it has a key.
    var isRepeatable: Bool { isIdempotentMethod || idempotency != .none || value(of: Self.keyHeader) != nil }

    /// The place of a job: the network to its server, and the server.
    var options: DurableOptions {
        // In a URL an IPv6 address has brackets.
        var scope = Scope.host((url.host() ?? "").trimmingCharacters(in: ["[", "]"]))
        scope.port = UInt16(exactly: url.port ?? (url.scheme?.lowercased() == "https" ? 443 : 80))
        return DurableOptions(to: scope, destination: url.destination, isRepeatable: isRepeatable)
    }

    /// Returns the request of an attempt.
    ///
    /// - Parameter jobKey: The job's idempotency key.
    func request(jobKey: String) -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = method
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        let key: String? =
            switch idempotency.kind {
            case .automatic: isIdempotentMethod ? nil : value(of: Self.keyHeader) ?? jobKey
            case .none: nil
            case .job: jobKey
            case .given(let key): key
            }
        if let key { request.setValue(key, forHTTPHeaderField: Self.keyHeader) }
        return request
    }

    // MARK: - Checks

    /// Checks that the request can be sent.
    ///
    /// - Parameter reserved: The headers that the job sets itself, in lower case.
    func check(reserved: Set<String> = []) throws(DurableHTTPError) {
        guard url.isHTTP, url.destination != nil else {
            throw DurableHTTPError(
                .unsupportedURL, "the URL is not one of http or https with a host",
                next: "give the whole URL, such as https://example.org/notes")
        }
        guard Self.isToken(method) else {
            throw DurableHTTPError(.invalidMethod, "the method is not a word", next: "give a method such as POST")
        }
        var names: Set<String> = []
        for (name, value) in headers {
            guard Self.isToken(name), Self.isText(value) else {
                throw DurableHTTPError(
                    .invalidHeader, "the header '\(name.filter(\.isLetter).prefix(40))' has characters that cannot be sent",
                    next: "remove control characters and line ends")
            }
            guard !reserved.contains(name.lowercased()) else {
                throw DurableHTTPError(.invalidHeader, "the job sets the header '\(name)' itself", next: "leave it out")
            }
            guard names.insert(name.lowercased()).inserted else {
                throw DurableHTTPError(.invalidHeader, "the header '\(name)' is there twice", next: "give it once")
            }
        }
        if case .given(let key) = idempotency.kind, !Self.isText(key) || key.isEmpty {
            throw DurableHTTPError(
                .invalidHeader, "the idempotency key has characters that cannot be sent", next: "use letters and digits")
        }
    }

    /// Checks the size of everything that is stored but a request's body.
    static func check(_ parameters: some Encodable) throws(DurableHTTPError) {
        let size = (try? JSONEncoder().encode(parameters).count) ?? .max
        guard size <= DurableRequest.largestHead else {
            throw DurableHTTPError(
                .headTooLarge,
                "URL, method and headers have \(size) bytes in their stored form, more than "
                    + "\(DurableRequest.largestHead)", next: "send long values in the body")
        }
    }

    /// A token of RFC 9110, section 5.6.2.
    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// A value of RFC 9110, section 5.5: no control characters, because a line end would begin another header.
    private static func isText(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == UInt8(ascii: "\t") }
    }
}
