import Foundation
import SyncEngine

/// A folder of photos.
struct PhotoFolder {
    private let url: URL

    init(_ url: URL) { self.url = url }

    /// Its plain files, by name; hidden ones are left out.
    func photos() throws -> [Photo] {
        try FileManager.default.contentsOfDirectory(atPath: url.path).sorted().compactMap { name in
            let path = url.appendingPathComponent(name).path
            guard !name.hasPrefix("."), let attributes = try? FileManager.default.attributesOfItem(atPath: path),
                attributes[.type] as? FileAttributeType == .typeRegular
            else { return nil }
            return Photo(name, size: attributes[.size] as? Int ?? 0)
        }
    }
}
