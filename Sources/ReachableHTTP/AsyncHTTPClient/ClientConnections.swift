#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import FoundationNetworking
internal import NIOCore
internal import NIOSSL
internal import ReachableRetry
internal import Synchronization

/// The connections that the requests of a client use.
///
/// A client has no function that leaves its pooled connections behind. It pools them by the configuration of TLS, too, also those
/// without TLS (`ConnectionPool.Key`): requests of another generation have one that differs in nothing but the nanoseconds of the
/// wait for the other side's `close_notify`.
enum ClientConnections {
    private struct Entry {
        weak var client: HTTPClient?
        var generation = 0
        var networks: ConnectionEpochs
    }

    /// A client keeps each pool, empty or not, for its life: numbers come again, when the connections of old are closed.
    private static let generations = 64

    private static let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    /// Returns the generation of connections for an attempt.
    static func generation(of client: HTTPClient, _ attempt: Attempt) -> Int {
        entries.withLock { entries in
            let id = ObjectIdentifier(client)
            guard entries[id]?.client === client else {
                entries = entries.filter { $0.value.client != nil }
                entries[id] = Entry(client: client, networks: ConnectionEpochs(attempt))
                return 0
            }
            if entries[id]?.networks.isBehind(attempt) == true {
                let next = ((entries[id]?.generation ?? 0) + 1) % generations
                entries[id] = Entry(client: client, generation: next, networks: ConnectionEpochs(attempt))
            }
            return entries[id]?.generation ?? 0
        }
    }

    /// Lets later requests use connections that do not exist yet.
    static func retire(_ generation: Int, of client: HTTPClient) {
        entries.withLock { entries in
            let id = ObjectIdentifier(client)
            guard entries[id]?.client === client, entries[id]?.generation == generation else { return }
            entries[id]?.generation = (generation + 1) % generations
        }
    }
}

extension HTTPClient {
    /// Runs the exchange of an attempt on connections that are not known to be dead.
    func exchange<Value>(
        _ request: HTTPClientRequest, _ attempt: Attempt, _ body: (HTTPClientRequest) async throws -> Value
    ) async throws -> Value {
        let generation = ClientConnections.generation(of: self, attempt)
        do {
            return try await body(generation == 0 ? request : request.pooled(generation, ownConfiguration))
        } catch {
            // Its other connections may be as dead.
            let isTimeout = ConnectionFault(error).errorCode == URLError.Code.timedOut.rawValue
            if isTimeout || attempt.isCut { ClientConnections.retire(generation, of: self) }
            throw error
        }
    }

    /// The configuration of TLS that the client was made with, which it does not show.
    var ownConfiguration: TLSConfiguration? {
        let configuration = Mirror(reflecting: self).descendant("configuration") as? Configuration
        return configuration?.tlsConfiguration
    }
}

extension HTTPClientRequest {
    /// Returns the request for the connections of a generation.
    fileprivate func pooled(_ generation: Int, _ own: TLSConfiguration?) -> HTTPClientRequest {
        var request = self
        var configuration = tlsConfiguration ?? own ?? .makeClientConfiguration()
        configuration.shutdownTimeout = configuration.shutdownTimeout + .nanoseconds(Int64(generation))
        request.tlsConfiguration = configuration
        return request
    }
}
#endif
