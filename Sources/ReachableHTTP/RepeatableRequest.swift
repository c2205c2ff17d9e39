internal import Foundation

/// A request of an HTTP client, as far as a job has to know it.
protocol RepeatableRequest: Sendable {
    /// What the client says to a response that is none of success.
    associatedtype Refusal: ErrorResponse

    /// Its method's name.
    var verb: String { get }
    /// The server that it goes to, as host and port: what jobs to the same one share a gate by.
    var destination: String? { get }

    /// A header field's value; `nil` if it has none of that name.
    func field(_ name: String) -> String?
    /// Sets a header field, in the place of one that is there.
    mutating func setField(_ name: String, _ value: String)
    /// What an error of the client stands for.
    static func fault(of error: any Error) -> ConnectionFault
}

/// A response with a status outside of 200 to 299, and the body that came with it.
protocol ErrorResponse: Error {
    associatedtype Response: Sendable

    var response: Response { get }
    var status: Int { get }
    /// The response's header fields.
    var fields: [String: String] { get }
}

/// The name of a header field by which a server knows a request again.
let idempotencyKey = "Idempotency-Key"

extension RepeatableRequest {
    mutating func add(_ idempotency: HTTPIdempotency) {
        switch idempotency.kind {
        case .method, .assured: return
        case .generated:
            guard field(idempotencyKey) == nil else { return }
            setField(idempotencyKey, UUID().uuidString)
        case .given(let key): setField(idempotencyKey, key)
        }
    }

    /// Makes it one for what is missing of a download, if it may be.
    mutating func resume(_ partial: inout PartialDownload, _ options: HTTPRequestRetryOptions<Self>) {
        let isAllowed = options.resumesDownloads && verb == "GET" && field("Range") == nil
        // Positions in an encoded body mean nothing to the server.
        if isAllowed, !options.acceptsEncodedDownloads, field("Accept-Encoding") == nil { setField("Accept-Encoding", "identity") }
        for field in partial.resume(isAllowed: isAllowed) { setField(field.name, field.value) }
    }
}

extension URL {
    /// The host and the port that requests go to.
    var destination: String? {
        guard let host = host()?.lowercased(), !host.isEmpty else { return nil }
        let port = port ?? (scheme?.lowercased() == "https" ? 443 : 80)
        return host.contains(":") && !host.hasPrefix("[") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
