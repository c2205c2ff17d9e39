#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import NIOHTTP1

extension HTTPClientRequest: RepeatableRequest {
    typealias Refusal = HTTPClientStatusError

    var verb: String { method.rawValue }

    var destination: String? { URL(string: url)?.destination }

    func field(_ name: String) -> String? { headers.first(name: name) }

    mutating func setField(_ name: String, _ value: String) { headers.replaceOrAdd(name: name, value: value) }

    static func fault(of error: any Error) -> ConnectionFault { ConnectionFault(error) }

    /// Refuses what is no request of HTTP before it waits for a network.
    func checkScheme() throws(HTTPClientError) {
        guard let scheme = URL(string: url)?.scheme?.lowercased() else { throw .invalidURL }
        guard ["http", "https", "http+unix", "https+unix"].contains(scheme) else { throw .unsupportedScheme(scheme) }
    }
}
#endif
