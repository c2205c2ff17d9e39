import Foundation

/// A directory that is deleted at the end.
final class TemporaryDirectory: Sendable {
    let path: String

    /// A file system in memory, if there is one: for tests that would wait for the disk most of the time.
    static let memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NSTemporaryDirectory()

    init(in parent: String = NSTemporaryDirectory()) throws {
        path = parent + "/reachable-jobs-" + UUID().uuidString
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
