#if AsyncHTTPClient
public import AsyncHTTPClient
public import NIOCore
internal import NIOHTTP1

/// A response of `HTTPClient` with an error status.
///
/// Requests throw it with ``HTTPRequestRetryOptions/ErrorStatuses/thrown``. Events and pending jobs show it as the reason
/// of a failed attempt in any case.
public struct HTTPClientStatusError: Error, Sendable {
    /// The body, up to the caller's limit; of a download's response the first mebibyte.
    public var body: ByteBuffer
    private let head: HTTPClientResponse

    /// The response, with a body that can be read.
    public var response: HTTPClientResponse {
        // A body can be read once, and several readers may share an error.
        var response = head
        response.body = .bytes(body)
        return response
    }

    /// The response's status.
    public var status: Int { Int(head.status.code) }

    /// Creates an error; the response's own body is ignored.
    public init(response: HTTPClientResponse, body: ByteBuffer) { (head, self.body) = (response, body) }

    /// Reads a response's body up to a limit.
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
    /// The problem and the next step.
    public var description: String { advice }
}

extension HTTPClientStatusError: ErrorResponse {
    var headers: [String: String] { Dictionary(head.headers.map { ($0.name.lowercased(), $0.value) }) { "\($0), \($1)" } }
}
#endif
