internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// Keeps the body of a response in memory.
final class DataReceiver: TaskReceiver {
    private let body = Mutex(Data())

    func receive(_ response: HTTPURLResponse?) -> HTTPExchange<Data, HTTPStatusError>? {
        body.withLock { $0 = Data() }
        return nil
    }

    func receive(_ data: Data) -> HTTPExchange<Data, HTTPStatusError>? {
        body.withLock { $0 += data }
        return nil
    }

    func end(_ response: HTTPURLResponse?) throws -> HTTPExchange<Data, HTTPStatusError> {
        guard let response else { throw URLError(.badServerResponse) }
        let body = body.withLock { $0 }
        guard 200...299 ~= response.statusCode else { return .refusal(HTTPStatusError(response: response, data: body)) }
        return .value(body, response)
    }
}
