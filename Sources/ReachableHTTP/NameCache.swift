internal import Foundation
internal import FoundationNetworking
internal import Reachability
internal import Synchronization

/// The names of hosts that a session knows already.
///
/// A session waits for libcurl's own lookup when a request is cancelled, and all of its requests wait with it: 10 s if no name
/// server answers. So a request starts only after its host was looked up on a thread of its own; libcurl finds the
/// answer again, and keeps it for a minute (`CURLOPT_DNS_CACHE_TIMEOUT`).
final class NameCache: Sendable {
    /// Shorter than libcurl's minute, which begins later.
    private static let lifetime: Duration = .seconds(50)
    private static let proxies = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    private let known = Mutex<[String: ContinuousClock.Instant]>([:])

    /// Waits until the host of a URL is known.
    ///
    /// - Throws: `URLError.cannotFindHost`; `CancellationError` at once when the task is cancelled.
    func find(_ url: URL) async throws {
        let once = Once<(any Error)?>()
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                once.set(continuation)
                find(url) { once.resume($0) }
            }
        } onCancel: {
            once.resume(CancellationError())
        }
        if let failure { throw failure }
    }

    /// Calls a function with `nil` when the host of a URL is known, or with the error of its lookup.
    func find(_ url: URL, _ body: @escaping @Sendable ((any Error)?) -> Void) {
        guard let host = url.host(), Self.isLookedUp(host), !isKnown(host) else { return body(nil) }
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
        let environment = ProcessInfo.processInfo.environment
        guard host != "localhost", host.utf8.allSatisfy({ $0 < 128 }), IPAddress(host) == nil, !host.hasPrefix("[") else {
            return false
        }
        return !proxies.contains { environment[$0].map { !$0.isEmpty } ?? false }
    }
}

/// A continuation that is resumed once, by the first caller.
private final class Once<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case waiting(CheckedContinuation<Value, Never>)
        case resumed(Value)
        case over
    }

    private let state = Mutex(State.empty)

    func set(_ continuation: CheckedContinuation<Value, Never>) {
        let value = state.withLock { state -> Value? in
            if case .resumed(let value) = state {
                state = .over
                return value
            }
            state = .waiting(continuation)
            return nil
        }
        if let value { continuation.resume(returning: value) }
    }

    func resume(_ value: Value) {
        let continuation = state.withLock { state -> CheckedContinuation<Value, Never>? in
            switch state {
            case .empty:
                state = .resumed(value)
                return nil
            case .waiting(let continuation):
                state = .over
                return continuation
            case .resumed, .over: return nil
            }
        }
        continuation?.resume(returning: value)
    }
}
