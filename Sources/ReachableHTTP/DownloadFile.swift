internal import Foundation

/// The file that a download is written to, over several attempts.
///
/// Only this user may read it.
struct DownloadFile: Sendable {
    /// How much is kept of the body of a response that is none of the download.
    static let refusalLimit = 1 << 20

    let location: URL
    private let handle: FileHandle

    /// Makes an empty file.
    init(in directory: URL = FileManager.default.temporaryDirectory) throws {
        location = directory.appendingPathComponent("\(UUID().uuidString).download")
        let isMade = FileManager.default.createFile(
            atPath: location.path, contents: nil, attributes: [.posixPermissions: 0o600])
        guard isMade else { throw CocoaError(.fileWriteUnknown) }
        handle = try FileHandle(forWritingTo: location)
    }

    func append(_ data: some DataProtocol) throws { try handle.write(contentsOf: data) }

    func clear() throws { try handle.truncate(atOffset: 0) }

    /// Puts something else in the place of what has arrived.
    func replaceAll(with data: some DataProtocol) throws -> URL {
        try clear()
        try append(data)
        return location
    }

    func remove() { try? FileManager.default.removeItem(at: location) }
}
