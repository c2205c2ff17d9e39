import Foundation
import FoundationNetworking
import ReachableHTTP

/// The server over HTTP: one request for each attempt.
struct HTTPBackupServer: BackupServer {
    func store(_ backup: BackUp, key: String) async throws {
        let file = URL(filePath: backup.file)
        // A file that was removed meanwhile needs no backup.
        guard FileManager.default.fileExists(atPath: file.path) else { return }
        var request = URLRequest(url: backup.server.appending(path: file.lastPathComponent))
        request.httpMethod = "PUT"
        request.setValue(key, forHTTPHeaderField: "Idempotency-Key")
        _ = try await URLSession.shared.attempt(request, fromFile: file)
    }
}
