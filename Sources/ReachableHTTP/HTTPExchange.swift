internal import Foundation
internal import FoundationNetworking

/// What an attempt brought, if there was a response.
enum HTTPExchange<Body> {
    /// What the caller wants.
    case value(Body, HTTPURLResponse)
    /// A status outside of 200 to 299, and the body that came with it.
    case refusal(Data, HTTPURLResponse)
}

extension HTTPExchange<Data> {
    /// Sorts a response by its status.
    init(_ reply: (data: Data, response: URLResponse)) throws {
        guard let response = reply.response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        self = 200...299 ~= response.statusCode ? .value(reply.data, response) : .refusal(reply.data, response)
    }
}
