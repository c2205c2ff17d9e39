import Foundation

/// A file that is to be sent: its name, and which file that is.
struct Parcel: Hashable {
    var name: String
    /// The file's number on its disk: another file that takes the name has another one.
    var inode: UInt64
}

/// A directory of files that are to be sent, and one of those that were.
struct Outbox {
    private let directory: URL
    private let sent: URL

    /// Makes the directories unless they are there.
    init(_ directory: URL, sent: URL? = nil) throws {
        self.directory = directory
        self.sent = sent ?? directory.appendingPathComponent("sent")
        for url in [self.directory, self.sent] {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        }
    }

    /// What is to be sent, by name; hidden files may not be whole yet, and are left out.
    func parcels() throws -> [Parcel] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted().compactMap { name in
            name.hasPrefix(".") ? nil : parcel(name)
        }
    }

    func file(of parcel: Parcel) -> URL { directory.appendingPathComponent(parcel.name) }

    /// Moves a file to those that were sent, unless its name has become another file's, which is still to be sent.
    func markSent(_ parcel: Parcel) throws {
        guard self.parcel(parcel.name) == parcel else { return }
        let target = sent.appendingPathComponent(parcel.name)
        // rename(2) replaces a file of the same name that was sent before, so that at no time there is none.
        guard rename(file(of: parcel).path, target.path) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO, userInfo: [NSFilePathErrorKey: target.path])
        }
    }

    /// The file of that name; `nil` if there is none, or if it is no plain file.
    private func parcel(_ name: String) -> Parcel? {
        let path = directory.appendingPathComponent(name).path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            attributes[.type] as? FileAttributeType == .typeRegular, let inode = attributes[.systemFileNumber] as? UInt64
        else { return nil }
        return Parcel(name: name, inode: inode)
    }
}
