#if AsyncHTTPClient
public import AsyncHTTPClient
public import NIOCore
internal import NIOHTTP1

/// A response of `HTTPClient` with a status that tells of a failure.
///
/// What requests throw with ``HTTPRequestRetryOptions/ErrorStatuses/thrown``, and what events and pending jobs show as the reason
/// of an attempt's failure in any case.
public struct HTTPClientStatusError: Error, Sendable {
    /// The response's body; what was longer than the caller allowed is cut off, and of a download's what is beyond a mebibyte.
    public var body: ByteBuffer
    private let head: HTTPClientResponse

    /// The response, with a body that can be read.
    public var response: HTTPClientResponse {
        // A body may be read once, and many may hear of one error.
        var response = head
        response.body = .bytes(body)
        return response
    }

    /// Its status.
    public var status: Int { Int(head.status.code) }

    /// Makes an error; the response's own body is not looked at.
    public init(response: HTTPClientResponse, body: ByteBuffer) { (head, self.body) = (response, body) }

    /// Reads a response's body, up to a limit.
    init(reading response: HTTPClientResponse, upTo limit: Int) async throws {
        var body = ByteBuffer()
        for try await var part in response.body {
            if let slice = part.readSlice(length: min(part.readableBytes, limit - body.readableBytes)) {
                body.writeImmutableBuffer(slice)
            }
            if body.readableBytes >= limit { break }
        }
        self.init(response: response, body: body)
    }
}

extension HTTPClientStatusError: CustomStringConvertible {
    /// What happened, and what can be done about it.
    public var description: String { advice }
}

extension HTTPClientStatusError: ErrorResponse {
    var fields: [String: String] { Dictionary(head.headers.map { ($0.name.lowercased(), $0.value) }) { first, _ in first } }
}

extension HTTPClientResponse {
    var isSuccess: Bool { 200...299 ~= status.code }
}
#endif
