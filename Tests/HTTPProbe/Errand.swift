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

/// One request of the probe.
struct Errand {
    let kind: String
    let url: URL
    let size: Int
    /// The number of downloads.
    let times: Int
    let policy: RetryPolicy
    let bus: RetryBus
    /// The conditions of a request for data, besides the network.
    let conditions: [Condition]
    /// The method of a request for data.
    let method: String
    /// `true` if its first attempt starts without any descriptor left.
    let isStarved: Bool

    /// The byte that an upload repeats.
    private static let byte: UInt8 = 7

    func runByURLSession() async throws -> String {
        var request = URLRequest(url: url)
        switch kind {
        case "upload":
            request.httpMethod = "PUT"
            let data = Data(repeating: Self.byte, count: size)
            let (_, response) = try await URLSession.shared.upload(for: request, from: data, retrying: policy, on: bus)
            return "\(response.statusCode)"
        case "download":
            var description = ""
            for number in 0..<times {
                // Every second download has a short-lived session.
                let session = number.isMultiple(of: 2) ? .shared : URLSession(configuration: .ephemeral)
                let (file, response) = try await session.download(for: request, retrying: policy, on: bus)
                description = try describe(response.statusCode, file)
            }
            return description
        default:
            request.httpMethod = method
            var options = HTTPRetryOptions()
            options.job.conditions = conditions
            if isStarved {
                options.adapt = { request, attempt in
                    if attempt.number == 1 { Shortage.begin() }
                    return request
                }
            }
            let (data, response) = try await URLSession.shared.data(for: request, retrying: policy, on: bus, options: options)
            return "\(response.statusCode) \(data.count)"
        }
    }

    #if AsyncHTTPClient
    func runByAsyncHTTPClient() async throws -> String {
        let client = HTTPClient(configuration: HTTPClient.Configuration().leavingRetriesToBus())
        let result: Result<String, any Error>
        do {
            result = .success(try await run(by: client))
        } catch {
            result = .failure(error)
        }
        try await client.shutdown()
        return try result.get()
    }

    private func run(by client: HTTPClient) async throws -> String {
        var request = HTTPClientRequest(url: url.absoluteString)
        switch kind {
        case "upload":
            request.method = .PUT
            let bytes = ByteBuffer(repeating: Self.byte, count: size)
            let response = try await client.upload(request, from: bytes, retrying: policy, on: bus)
            return "\(response.status.code)"
        case "download":
            var description = ""
            for _ in 0..<times {
                let (file, response) = try await client.download(request, retrying: policy, on: bus)
                description = try describe(Int(response.status.code), file)
            }
            return description
        default:
            request.method = HTTPMethod(rawValue: method)
            var options = HTTPClientRetryOptions()
            options.job.conditions = conditions
            if isStarved {
                options.adapt = { request, attempt in
                    if attempt.number == 1 { Shortage.begin() }
                    return request
                }
            }
            let response = try await client.execute(request, retrying: policy, on: bus, options: options)
            return "\(response.status.code) \(try await response.body.collect(upTo: .max).readableBytes)"
        }
    }
    #else
    func runByAsyncHTTPClient() async throws -> String { throw CocoaError(.featureUnsupported) }
    #endif

    private func describe(_ status: Int, _ file: URL) throws -> String {
        defer { try? FileManager.default.removeItem(at: file) }
        let data = try Data(contentsOf: file)
        return "\(status) \(data.count) \(data.reduce(into: UInt64(0)) { $0 += UInt64($1) })"
    }
}
