import Foundation
import FoundationNetworking
import ReachableHTTP

/// The warehouse over HTTP: one request for each attempt.
struct HTTPWarehouse: Warehouse {
    var url: URL

    func accept(_ order: SendOrder, key: String) async throws {
        var request = URLRequest(url: url.appendingPathComponent("\(order.number)"))
        request.httpMethod = "PUT"
        request.setValue(key, forHTTPHeaderField: "Idempotency-Key")
        _ = try await URLSession.shared.attempt(request, from: Data(order.item.utf8))
    }
}
