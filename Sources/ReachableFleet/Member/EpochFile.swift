internal import Glibc
internal import Reachability

/// The file that keeps a node's epoch over restarts.
///
/// It is a help, not a need: without it the own stored word tells the epoch. A file that cannot be read counts as none.
struct EpochFile: Sendable {
    let path: String

    /// The file of a node in a folder; no name has the character between the two.
    init(directory: String, site: FleetName, node: FleetName) { path = "\(directory)/fleet-\(site)@\(node).epoch" }

    /// Returns the stored epoch; 0 if there is none.
    func read() -> UInt64 {
        let file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard file >= 0 else { return 0 }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = Glibc.read(file, &bytes, bytes.count)
        guard count > 0, let text = String(validating: bytes[..<count], as: UTF8.self) else { return 0 }
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        // A file that was cut has no end of line.
        guard text.dropFirst(digits.count) == "\n", let epoch = UInt64(digits), epoch <= WordCoding.largestNumber else { return 0 }
        return epoch
    }

    /// Replaces the file, and waits until it is on the disk; returns an errno, or 0.
    func write(_ epoch: UInt64) -> Int32 {
        let other = "\(path).new"
        // A crash may have left it.
        unlink(other)
        let file = open(other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard file >= 0 else { return errno }
        let bytes = Array("\(epoch)\n".utf8)
        var failure: Int32 = 0
        let count = Glibc.write(file, bytes, bytes.count)
        if count != bytes.count { failure = count < 0 ? errno : ENOSPC }
        if failure == 0, fsync(file) != 0 { failure = errno }
        close(file)
        if failure == 0, rename(other, path) != 0 { failure = errno }
        guard failure == 0 else {
            unlink(other)
            return failure
        }
        return syncFolder()
    }

    /// The name is on the disk only with its folder (fsync(2)).
    private func syncFolder() -> Int32 {
        let end = path.lastIndex(of: "/") ?? path.startIndex
        let folder = open(end == path.startIndex ? "/" : String(path[..<end]), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { return errno }
        defer { close(folder) }
        return fsync(folder) == 0 ? 0 : errno
    }

    /// Writes on a thread of its own: waiting for a disk would hold up Swift's pool.
    func store(_ epoch: UInt64) async -> Int32 {
        await withCheckedContinuation { continuation in
            let error = SystemThread.start(named: "fleet-epoch", blocksSignals: true) {
                continuation.resume(returning: write(epoch))
            }
            if error != 0 { continuation.resume(returning: error) }
        }
    }
}
