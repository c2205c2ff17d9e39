/// The state of a durable download that is kept beside its partial file.
///
/// The record of a representation is on the disk before its first byte, and the file is empty before that. So all bytes of the
/// file are of the recorded representation. After a power failure the file may have a length without the bytes: then only those
/// count that were synchronized before.
struct DownloadRecord: Codable, Hashable, Sendable {
    /// The file at the destination, by which a finished download is recognized.
    struct Placed: Codable, Hashable, Sendable {
        var inode: UInt64
        var file: FileStamp
    }

    /// The format of the record.
    static let currentFormat = 1

    private var format = Self.currentFormat
    /// The idempotency key of the job, which another payload does not share.
    var key: String
    /// The server's name of the representation; `nil` if nothing can be joined to it.
    var validator: String?
    /// The size of the whole; `nil` if unknown.
    var total: Int64?
    /// The status and headers of its first response.
    var status: Int
    var headers: [String: String]
    /// The number of bytes that survive a power failure.
    var synchronized: Int64 = 0
    /// The boot in which the bytes behind those were written.
    var bootID: String?
    /// The most bytes that were kept of representations before this one; `nil` if this is the first.
    var most: Int64?
    /// True if the bytes came in several responses.
    var isJoined = false
    /// The file, once it may be at the destination.
    var placed: Placed?

    init(key: String, validator: String?, total: Int64?, status: Int, headers: [String: String], bootID: String?) {
        (self.key, self.validator, self.total) = (key, validator, total)
        (self.status, self.headers, self.bootID) = (status, headers, bootID)
    }

    /// Returns the number of bytes of the partial file that count; `nil` if none does, and the download starts over.
    ///
    /// - Parameters:
    ///   - length: The length of the file.
    ///   - key: The idempotency key of the job.
    ///   - bootID: The present boot; `nil` if unknown.
    func usable(length: Int64, key: String, bootID: String?) -> Int64? {
        guard format == Self.currentFormat, self.key == key, synchronized >= 0, length >= synchronized else { return nil }
        let usable = bootID != nil && self.bootID == bootID ? length : synchronized
        // Only a whole file is of use without a validator.
        guard let total else { return validator == nil ? nil : usable }
        return usable > total || validator == nil && usable < total ? nil : usable
    }
}
