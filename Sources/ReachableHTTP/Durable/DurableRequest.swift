public import Foundation
public import ReachableJobs

/// A request as a durable job: it is sent until the server has carried it out or refused it, also after a restart.
///
/// ```swift
/// queue.registerRequests { request, response, attempt in print(response.status) }
/// var order = try DurableRequest(url, method: "POST", headers: ["Content-Type": "application/json"], body: json)
/// order.options.serialKey = "customer 7"
/// try await queue.push(order)
/// ```
///
/// The stored form is JSON of at most 1 MiB: a body of at most ``largestBody`` and a head of at most ``largestHead`` always fit.
/// Larger bodies are for ``DurableUpload``. Its text shows neither the path of the URL nor headers nor the body.
public struct DurableRequest: JobParameters, Hashable {
    /// `http-request`.
    public static let jobName = "http-request"
    /// The largest body: 720 KiB, 737 280 bytes.
    ///
    /// A stored body takes four bytes for three (base64url), and the store's limit is `largestPayload`, 1 MiB.
    public static let largestBody = 720 << 10
    /// The largest size of everything but the body, in the stored form: 64 KiB.
    public static let largestHead = 64 << 10

    private let head: DurableHead
    /// The body; `nil` sends none.
    public let body: Data?
    /// The job's place and limits; derived from the URL, and not part of the stored form.
    ///
    /// By default the job waits for a way to the URL's host, its destination is the host and port, and it is repeatable unless it
    /// has a method that is not idempotent and no key. Where requests go through a proxy, set the scope to the internet or the
    /// proxy.
    public var options: DurableOptions

    /// The URL.
    public var url: URL { head.url }
    /// The method.
    public var method: String { head.method }
    /// The headers.
    public var headers: [String: String] { head.headers }
    /// The rule for the header `Idempotency-Key`.
    public var idempotency: DurableIdempotency { head.idempotency }

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - url: The URL, of `http` or `https`.
    ///   - method: The method; case-sensitive.
    ///   - headers: The headers, by name.
    ///   - body: The body.
    ///   - idempotency: The rule for the header `Idempotency-Key`.
    /// - Throws: ``DurableHTTPError/Code/bodyTooLarge``, ``DurableHTTPError/Code/headTooLarge``, or the code of a part that cannot
    ///   be sent.
    public init(
        _ url: URL, method: String = "GET", headers: [String: String] = [:], body: Data? = nil,
        idempotency: DurableIdempotency = .automatic
    ) throws(DurableHTTPError) {
        head = DurableHead(url: url, method: method, headers: headers, idempotency: idempotency)
        (self.body, options) = (body, head.options)
        try head.check()
        guard body.map({ $0.count <= Self.largestBody }) ?? true else {
            throw DurableHTTPError(
                .bodyTooLarge, "the body has \(body?.count ?? 0) bytes, more than \(Self.largestBody)",
                next: "write it to a file, and push a DurableUpload")
        }
        try DurableHead.check(Stored(head: head, body: body.map { _ in "" }))
    }

    /// True if the request may be sent twice.
    var isRepeatable: Bool { head.isRepeatable }

    /// The part that all kinds have.
    var common: DurableHead { head }
}

extension DurableRequest: Codable {
    /// The stored form: the members of the head, and the body as base64url, which JSON need not escape.
    private struct Stored: Codable {
        var head: DurableHead
        var body: String?

        init(head: DurableHead, body: String?) { (self.head, self.body) = (head, body) }

        init(from decoder: any Decoder) throws {
            head = try DurableHead(from: decoder)
            body = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(String.self, forKey: .body)
        }

        func encode(to encoder: any Encoder) throws {
            try head.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(body, forKey: .body)
        }

        private enum CodingKeys: CodingKey { case body }
    }

    /// Decodes a stored request; its ``options`` are those derived from the URL.
    public init(from decoder: any Decoder) throws {
        let stored = try Stored(from: decoder)
        head = stored.head
        body = try stored.body.map { text in
            guard let data = Data(base64URL: text) else {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: decoder.codingPath, debugDescription: "the body is not base64url"))
            }
            return data
        }
        options = head.options
    }

    /// Encodes the request without its ``options``, which the store keeps itself.
    public func encode(to encoder: any Encoder) throws {
        try Stored(head: head, body: body?.base64URL).encode(to: encoder)
    }
}

extension DurableRequest: CustomStringConvertible {
    /// The method, the host and port, and the size of the body.
    public var description: String {
        "\(method) \(url.destination ?? "")" + (body.map { ", \($0.count) bytes" } ?? "")
    }
}

extension Data {
    /// The text of base64 with the alphabet of RFC 4648, section 5.
    fileprivate var base64URL: String {
        let swapped = base64EncodedData().map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return String(decoding: swapped, as: UTF8.self)
    }

    fileprivate init?(base64URL text: String) {
        let swapped = text.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        self.init(base64Encoded: Data(swapped))
    }
}
