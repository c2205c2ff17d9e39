import Foundation
import FoundationNetworking
import Reachability
import ReachableHTTP
import ReachableRetry

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
#endif

/// The settings of a client and the options of its requests.
struct ProbeSettings: Sendable {
    var policy: RetryPolicy
    var bus: RetryBus
    /// The conditions of a request, besides the network.
    var conditions: [Condition] = []
    /// `true` if the first attempt starts without any descriptor left.
    var isStarved = false
    /// The time limit in seconds: of connecting, or for `URLSession` of silence; `nil` for the default.
    var timeout: Int?
    /// The limit of open connections; `nil` for the default.
    var connections: Int?
    /// The header `Authorization` of all requests of a session; `nil` for none.
    var authorization: String?

    /// Returns the options of a request.
    fileprivate func options<Request>() -> HTTPRequestRetryOptions<Request> {
        var options = HTTPRequestRetryOptions<Request>()
        options.job.conditions = conditions
        if let connections { options.maxConcurrentPerDestination = connections }
        if isStarved {
            options.adapt = { request, attempt in
                if attempt.number == 1 { Shortage.begin() }
                return request
            }
        }
        return options
    }
}

/// A client whose requests the bus retries.
protocol ProbeClient: Sendable {
    init(_ settings: ProbeSettings)

    /// Sends a request without a body; returns the status and the length of the response's body.
    func data(_ method: String, _ url: URL) async throws -> (status: Int, length: Int)

    /// Sends a body that repeats one byte; returns the status.
    func upload(_ method: String, _ url: URL, size: Int) async throws -> Int

    /// Downloads to a file, which the caller removes.
    func download(_ url: URL, number: Int) async throws -> (status: Int, file: URL)

    func shutdown() async throws
}

extension ProbeClient {
    /// Runs the body with a client, and shuts the client down.
    static func run(_ settings: ProbeSettings, _ body: (Self) async throws -> String) async throws -> String {
        let client = Self(settings)
        let result: Result<String, any Error>
        do {
            result = .success(try await body(client))
        } catch {
            result = .failure(error)
        }
        try await client.shutdown()
        return try result.get()
    }
}

/// The byte that an upload repeats.
private let uploadedByte: UInt8 = 7

/// `URLSession`.
struct SessionProbeClient: ProbeClient {
    private let settings: ProbeSettings
    private let session: URLSession

    init(_ settings: ProbeSettings) {
        self.settings = settings
        guard settings.timeout != nil || settings.connections != nil || settings.authorization != nil else {
            session = .shared
            return
        }
        let configuration = URLSessionConfiguration.default
        if let timeout = settings.timeout { configuration.timeoutIntervalForRequest = TimeInterval(timeout) }
        if let connections = settings.connections { configuration.httpMaximumConnectionsPerHost = connections }
        if let words = settings.authorization { configuration.httpAdditionalHeaders = ["Authorization": words] }
        session = URLSession(configuration: configuration)
    }

    func data(_ method: String, _ url: URL) async throws -> (status: Int, length: Int) {
        let (data, response) = try await session.data(
            for: request(method, url), retrying: settings.policy, on: settings.bus, options: settings.options())
        return (response.statusCode, data.count)
    }

    func upload(_ method: String, _ url: URL, size: Int) async throws -> Int {
        let (_, response) = try await session.upload(
            for: request(method, url), from: Data(repeating: uploadedByte, count: size), retrying: settings.policy,
            on: settings.bus, options: settings.options())
        return response.statusCode
    }

    func download(_ url: URL, number: Int) async throws -> (status: Int, file: URL) {
        // Every second download has a short-lived session.
        let session = number.isMultiple(of: 2) ? session : URLSession(configuration: .ephemeral)
        let (file, response) = try await session.download(
            for: request("GET", url), retrying: settings.policy, on: settings.bus, options: settings.options())
        return (response.statusCode, file)
    }

    func shutdown() async throws {}

    private func request(_ method: String, _ url: URL) -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = method
        return request
    }
}

#if AsyncHTTPClient
/// async-http-client.
struct AsyncProbeClient: ProbeClient {
    private let settings: ProbeSettings
    private let client: HTTPClient

    init(_ settings: ProbeSettings) {
        self.settings = settings
        var configuration = HTTPClient.Configuration().leavingRetriesToBus()
        if let timeout = settings.timeout { configuration.timeout.connect = .seconds(Int64(timeout)) }
        if let connections = settings.connections {
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
            // Connections that were left behind stay open for that long.
            configuration.connectionPool.idleTimeout = .seconds(1)
        }
        client = HTTPClient(configuration: configuration)
    }

    func data(_ method: String, _ url: URL) async throws -> (status: Int, length: Int) {
        let response = try await client.execute(
            request(method, url), retrying: settings.policy, on: settings.bus, options: settings.options())
        return (Int(response.status.code), try await response.body.collect(upTo: .max).readableBytes)
    }

    func upload(_ method: String, _ url: URL, size: Int) async throws -> Int {
        let response = try await client.upload(
            request(method, url), from: ByteBuffer(repeating: uploadedByte, count: size), retrying: settings.policy,
            on: settings.bus, options: settings.options())
        return Int(response.status.code)
    }

    func download(_ url: URL, number: Int) async throws -> (status: Int, file: URL) {
        let (file, response) = try await client.download(
            request("GET", url), retrying: settings.policy, on: settings.bus, options: settings.options())
        return (Int(response.status.code), file)
    }

    func shutdown() async throws { try await client.shutdown() }

    private func request(_ method: String, _ url: URL) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: url.absoluteString)
        request.method = HTTPMethod(rawValue: method)
        return request
    }
}
#endif
