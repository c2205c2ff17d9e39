import ArgumentParser
import Foundation
import FoundationNetworking
import ReachableHTTP
import SyncEngine

/// A server of photos over HTTP.
///
/// Each call is one request; the queue decides when to repeat it.
struct HTTPPhotoServer: PhotoServer {
    let url: URL
    let folder: URL
    var session = URLSession.shared

    func store(_ photo: Photo, key: String, token: String) async throws {
        var request = URLRequest(url: url.appendingPathComponent(photo.name))
        request.httpMethod = "PUT"
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.setValue(key, forHTTPHeaderField: "Idempotency-Key")
        let (_, response) = try await session.upload(for: request, fromFile: folder.appendingPathComponent(photo.name))
        try check(response)
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
