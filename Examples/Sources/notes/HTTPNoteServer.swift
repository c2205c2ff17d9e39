import Foundation
import FoundationNetworking
import ReachableHTTP

/// The server over HTTP: one request for each attempt.
struct HTTPNoteServer: NoteServer {
    var url: URL

    func put(_ note: SendNote, key: String) async throws {
        var request = URLRequest(url: url.appendingPathComponent(note.name))
        request.httpMethod = "PUT"
        request.setValue(key, forHTTPHeaderField: "Idempotency-Key")
        let (_, response) = try await URLSession.shared.upload(for: request, from: Data(note.text.utf8))
        guard let response = response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        guard !(200...299 ~= response.statusCode) else { return }
        let delay = response.value(forHTTPHeaderField: "Retry-After")
            .flatMap { RetryAfter.delay($0, now: .seconds(Date().timeIntervalSince1970)) }
        throw Refusal(status: response.statusCode, retryAfter: delay)
    }
}
