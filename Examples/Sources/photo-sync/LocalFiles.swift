import Foundation
import SyncEngine

/// A folder of photos.
struct PhotoFolder {
    private let url: URL

    init(_ url: URL) { self.url = url }

    /// Returns the regular files by name, without hidden ones.
    func photos() throws -> [Photo] {
        try FileManager.default.contentsOfDirectory(atPath: url.path).sorted().compactMap { name in
            let path = url.appendingPathComponent(name).path
            guard !name.hasPrefix("."), let attributes = try? FileManager.default.attributesOfItem(atPath: path),
                attributes[.type] as? FileAttributeType == .typeRegular
            else { return nil }
            let modified = (attributes[.modificationDate] as? Date)?.timeIntervalSince1970 ?? 0
            return Photo(name, size: attributes[.size] as? Int ?? 0, modified: Int64(modified * 1000))
        }
    }
}

/// A file with the token of the login.
struct TokenFile {
    private let url: URL

    init(_ url: URL) { self.url = url }

    /// Passes the token on to a login, until the task is cancelled.
    ///
    /// Reads the file once a second: fast enough for a person who logs in, and it needs no file system that can be watched.
    func follow(for login: Login) async {
        repeat {
            await login.use(token)
        } while (try? await Task.sleep(for: .seconds(1))) != nil
    }

    private var token: String? {
        let text = try? String(contentsOf: url, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        return text?.isEmpty == false ? text : nil
    }
}
