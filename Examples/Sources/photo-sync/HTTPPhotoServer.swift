import ArgumentParser
import Foundation
import FoundationNetworking
import ReachableHTTP
import SyncEngine

/// A server of photos over HTTP.
///
/// Each call is one request; the engine decides when to repeat it.
struct HTTPPhotoServer: PhotoServer {
    let url: URL
    let folder: URL
    var session = URLSession.shared

    func names(token: String) async throws -> Set<String> {
        let (data, response) = try await session.data(for: request("GET", url, token))
        try check(response)
        return Set(String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init))
    }

    func store(_ photo: Photo, token: String) async throws {
        let request = request("PUT", url.appendingPathComponent(photo.name), token)
        let (_, response) = try await session.upload(for: request, fromFile: folder.appendingPathComponent(photo.name))
        try check(response)
    }

    private func request(_ method: String, _ url: URL, _ token: String) -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        return request
    }

    private func check(_ response: URLResponse) throws {
        guard let response = response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        guard !(200...299 ~= response.statusCode) else { return }
        let delay = response.value(forHTTPHeaderField: "Retry-After").flatMap {
            RetryAfter.delay($0, now: .seconds(Date().timeIntervalSince1970))
        }
        throw Refusal(status: response.statusCode, retryAfter: delay)
    }

    /// Returns the system error that an error of `URLSession` stands for, if it matters for the fault.
    ///
    /// On Linux no error says "offline": the name lookup fails, as for an unknown name. The bus knows the state of the network.
    static func systemError(_ error: any Error) -> Int32? {
        switch error {
        case URLError.cannotFindHost: EAI_AGAIN
        case URLError.cannotConnectToHost: ECONNREFUSED
        case URLError.timedOut: ETIMEDOUT
        default: nil
        }
    }

    /// Parses the URL of a server.
    static func url(_ text: String) throws -> URL {
        guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host() != nil else {
            throw ValidationError("give a URL such as http://127.0.0.1:8080/")
        }
        return url
    }
}
