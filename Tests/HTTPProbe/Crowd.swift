import Foundation
import FoundationNetworking
import ReachableHTTP
import ReachableRetry

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
#endif

/// Requests that are made at the same time, each to a path of its own: `/1`, `/2` and so on.
struct Crowd: Sendable {
    let count: Int
    let url: URL
    let method: String
    /// The length of each body.
    let size: Int
    let policy: RetryPolicy
    let bus: RetryBus
    /// The seconds within which there has to be a connection; of `URLSession` those of silence.
    let timeout: Int
    /// The number of connections that may be open at a time; `nil` for the defaults.
    let connections: Int?

    func runByURLSession() async -> String {
        let configuration = URLSessionConfiguration.default
        configuration.timeoutIntervalForRequest = TimeInterval(timeout)
        var options = HTTPRetryOptions()
        if let connections {
            configuration.httpMaximumConnectionsPerHost = connections
            options.maxConcurrentPerDestination = connections
        }
        let session = URLSession(configuration: configuration)
        let body = Data(repeating: 7, count: size)
        return await run { [options] url in
            var request = URLRequest(url: url)
            request.httpMethod = method
            let (_, response) =
                size == 0
                ? try await session.data(for: request, retrying: policy, on: bus, options: options)
                : try await session.upload(for: request, from: body, retrying: policy, on: bus, options: options)
            return response.statusCode
        }
    }

    #if AsyncHTTPClient
    func runByAsyncHTTPClient() async throws -> String {
        var configuration = HTTPClient.Configuration().leavingRetriesToBus()
        configuration.timeout.connect = .seconds(Int64(timeout))
        var options = HTTPClientRetryOptions()
        if let connections {
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
            options.maxConcurrentPerDestination = connections
        }
        let client = HTTPClient(configuration: configuration)
        let body = ByteBuffer(repeating: 7, count: size)
        let result = await run { [options] url in
            var request = HTTPClientRequest(url: url.absoluteString)
            request.method = HTTPMethod(rawValue: method)
            if size > 0 { request.body = .bytes(body) }
            return Int(try await client.execute(request, retrying: policy, on: bus, options: options).status.code)
        }
        try await client.shutdown()
        return result
    }
    #else
    func runByAsyncHTTPClient() async throws -> String { throw CocoaError(.featureUnsupported) }
    #endif

    /// Makes all requests, and counts those that succeed.
    private func run(_ send: @escaping @Sendable (URL) async throws -> Int) async -> String {
        await withTaskGroup(of: Bool.self) { group in
            for number in 1...count {
                group.addTask {
                    do {
                        return 200...299 ~= (try await send(url.appendingPathComponent("\(number)")))
                    } catch {
                        HTTPProbe.tell("lost \(number) \(HTTPProbe.code(of: error)) \(type(of: error))")
                        return false
                    }
                }
            }
            return "\(await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }) of \(count)"
        }
    }
}
