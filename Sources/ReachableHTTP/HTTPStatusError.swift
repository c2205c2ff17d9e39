public import Foundation
public import FoundationNetworking

/// A response with a status that tells of a failure.
///
/// What requests throw with ``HTTPRequestRetryOptions/ErrorStatuses/thrown``, and what events and pending jobs show as the reason
/// of an attempt's failure in any case.
public struct HTTPStatusError: Error, Sendable {
    /// The response.
    public var response: HTTPURLResponse
    /// Its body; of a download's response the first mebibyte.
    public var data: Data

    /// Its status.
    public var status: Int { response.statusCode }

    /// Makes an error.
    public init(response: HTTPURLResponse, data: Data) { (self.response, self.data) = (response, data) }
}

extension HTTPStatusError: CustomStringConvertible {
    /// What happened, and what can be done about it.
    public var description: String { advice }
}

extension ErrorResponse {
    /// What happened, and what can be done about it.
    var advice: String {
        switch status {
        case 400...499: "The server refused the request with status \(status). See its response for what to change."
        default: "The server failed with status \(status). Try again later, or allow more attempts."
        }
    }
}
