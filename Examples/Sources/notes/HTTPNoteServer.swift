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
        _ = try await URLSession.shared.attempt(request, from: Data(note.text.utf8))
    }
}
