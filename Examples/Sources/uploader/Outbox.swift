import Foundation

/// A file to send, identified by name and inode.
struct Parcel: Hashable, Codable {
    var name: String
    /// The inode number: another file with the same name has another one.
    var inode: UInt64
}

/// A directory of files to send, and a directory of sent files.
struct Outbox {
    private let directory: URL
    private let sent: URL

    /// Makes the directories, unless they exist.
    init(_ directory: URL, sent: URL? = nil) throws {
        self.directory = directory
        self.sent = sent ?? directory.appendingPathComponent("sent")
        for url in [self.directory, self.sent] {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        }
    }

    /// Returns the files to send, by name.
    ///
    /// Hidden files may be incomplete and are left out.
    func parcels() throws -> [Parcel] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted().compactMap { name in
            name.hasPrefix(".") ? nil : parcel(name)
        }
    }

    func contains(_ parcel: Parcel) -> Bool { self.parcel(parcel.name) == parcel }

    func file(of parcel: Parcel) -> URL { directory.appendingPathComponent(parcel.name) }

    /// Moves a file to the sent files, unless another file has taken its name.
    func markSent(_ parcel: Parcel) throws {
        guard contains(parcel) else { return }
        let target = sent.appendingPathComponent(parcel.name)
        // rename(2) replaces a sent file of the same name atomically.
        guard rename(file(of: parcel).path, target.path) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO, userInfo: [NSFilePathErrorKey: target.path])
        }
    }

    /// Returns the regular file of that name; `nil` if there is none.
    private func parcel(_ name: String) -> Parcel? {
        let path = directory.appendingPathComponent(name).path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            attributes[.type] as? FileAttributeType == .typeRegular, let inode = attributes[.systemFileNumber] as? UInt64
        else { return nil }
        return Parcel(name: name, inode: inode)
    }
}
