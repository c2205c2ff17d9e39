public import Foundation
public import FoundationNetworking

/// A response with an error status.
///
/// Requests throw it with ``HTTPRequestRetryOptions/ErrorStatuses/thrown``. Events and pending jobs show it as the reason
/// of a failed attempt in any case.
public struct HTTPStatusError: Error, Sendable {
    /// The response.
    public var response: HTTPURLResponse
    /// The body; of a download's response the first mebibyte.
    public var data: Data

    /// The response's status.
    public var status: Int { response.statusCode }

    /// Creates an error.
    public init(response: HTTPURLResponse, data: Data) { (self.response, self.data) = (response, data) }
}

extension HTTPStatusError: CustomStringConvertible {
    /// The problem and the next step.
    public var description: String { advice }
}

extension HTTPStatusError: ErrorResponse {
    var headers: [String: String] {
        response.allHeaderFields.reduce(into: [:]) { headers, header in
            if let name = header.key as? String, let value = header.value as? String { headers[name] = value }
        }
    }
}

/// A client's response with a status outside 200 to 299, and its body.
protocol ErrorResponse: Error {
    associatedtype Response: Sendable

    var response: Response { get }
    var status: Int { get }
    var headers: [String: String] { get }
}

extension ErrorResponse {
    /// The problem and the next step.
    var advice: String {
        switch status {
        case 400...499: "The server refused the request with status \(status). See its response for what to change."
        default: "The server failed with status \(status). Try again later, or allow more attempts."
        }
    }
}
