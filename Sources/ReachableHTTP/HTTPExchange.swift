internal import Foundation
internal import FoundationNetworking

/// What an attempt brought, if there was a response.
enum HTTPExchange<Body, Refusal: HTTPRefusal> {
    /// What the caller wants.
    case value(Body, Refusal.Response)
    /// A response with another status.
    case refusal(Refusal)
}

extension HTTPExchange<Data, HTTPStatusError> {
    /// Sorts a response by its status.
    init(_ reply: (data: Data, response: URLResponse)) throws {
        guard let response = reply.response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        self =
            200...299 ~= response.statusCode
            ? .value(reply.data, response) : .refusal(HTTPStatusError(response: response, data: reply.data))
    }
}
