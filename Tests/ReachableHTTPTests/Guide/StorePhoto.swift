import Foundation
import FoundationNetworking
import ReachableHTTP
import ReachableRetry

func store(_ photo: Data, at location: URL, on bus: RetryBus = .shared) async throws -> Int {
    var request = URLRequest(url: location)
    request.httpMethod = "PUT"
    let policy = RetryPolicy.default.attemptTimeout(.seconds(120)).giveUpAfter(elapsed: .seconds(86_400))
    return try await URLSession.shared.upload(for: request, from: photo, retrying: policy, on: bus).1.statusCode
}
