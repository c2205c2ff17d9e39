internal import Foundation
internal import FoundationNetworking
internal import Glibc
internal import Reachability
internal import Synchronization

/// The names of hosts that a session knows already.
///
/// A session waits for libcurl's own lookup when a request is cancelled, and all of its requests wait with it: 10 s if no name
/// server answers. So a request starts only after its host was looked up on a thread of its own; libcurl finds the answer again,
/// and keeps it for a minute (`CURLOPT_DNS_CACHE_TIMEOUT`).
final class NameCache: Sendable {
    /// Shorter than libcurl's minute, which begins later.
    private static let lifetime: Duration = .seconds(50)
    private static let proxies = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    private let known = Mutex<[String: ContinuousClock.Instant]>([:])

    /// Waits until the host of a URL is known.
    ///
    /// - Throws: `URLError.cannotFindHost`; `CancellationError` at once when the task is cancelled.
    func find(_ url: URL) async throws {
        let (answers, answer) = AsyncStream.makeStream(of: (any Error)?.self)
        find(url) {
            answer.yield($0)
            answer.finish()
        }
        // Ends at once when the task is cancelled.
        for await failure in answers {
            if let failure { throw failure }
        }
        try Task.checkCancellation()
    }

    /// Calls a function with `nil` when the host of a URL is known, or with the error of its lookup.
    func find(_ url: URL, _ body: @escaping @Sendable ((any Error)?) -> Void) {
        guard let host = url.host(), !isKnown(host), Self.isLookedUp(host) else { return body(nil) }
        HostAnswer.find(host) { [self] answer in
            switch answer {
            case .addresses:
                known.withLock { $0[host] = .now }
                body(nil)
            // libcurl has the error of the shortage.
            case .failed(.notAsked): body(nil)
            case .failed(let failure):
                body(URLError(.cannotFindHost, userInfo: [NSLocalizedDescriptionKey: "\(host): \(failure)"]))
            }
        }
    }

    private func isKnown(_ host: String) -> Bool {
        known.withLock { known in
            let now = ContinuousClock.now
            if known.count > 1000 { known = known.filter { now - $0.value < Self.lifetime } }
            return known[host].map { now - $0 < Self.lifetime } ?? false
        }
    }

    /// Returns true if libcurl looks up a host: a proxy does it for its clients, and addresses are none.
    private static func isLookedUp(_ host: String) -> Bool {
        guard host != "localhost", host.utf8.allSatisfy({ $0 < 128 }), IPAddress(host) == nil, !host.hasPrefix("[") else {
            return false
        }
        return !hasProxy
    }

    /// True if the environment names a proxy.
    static var hasProxy: Bool { proxies.contains { getenv($0).map { $0.pointee != 0 } ?? false } }
}
