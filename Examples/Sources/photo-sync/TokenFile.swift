import Foundation
import SyncEngine

/// The file that has the token of whoever is logged in.
struct TokenFile {
    private let url: URL

    init(_ url: URL) { self.url = url }

    /// Tells a login what is in the file, until the task is cancelled.
    ///
    /// Looks once a second: a person who logs in does not notice, and a file system that cannot be watched will do.
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
