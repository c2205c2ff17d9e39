import CommandKit
import Glibc
import Reachability

/// A file that grows by whole lines, with the older files FILE.1, FILE.2 and so on beside it.
///
/// Owned by one actor. Files of other programs are neither appended to nor replaced, and another process that appends to the same
/// file is refused (flock(2)): both would rename it.
final class LogFile {
    /// A file and its limits.
    struct Place: Hashable, Sendable {
        var path: ForeignText
        /// The size that a file does not exceed, unless a single append does.
        var largest: Int64
        /// The number of older files.
        var kept: Int
    }

    /// The beginning of each line of `watch` (docs/json.md).
    private static let beginning = Array(#"{"event":"#.utf8)

    private let place: Place
    /// The open file; negative while there is none.
    private var descriptor: Int32 = -1
    /// The size after the last append.
    private var size: off_t = 0
    /// The size at which the file is renamed; grows if it cannot be.
    private var largest: off_t

    /// Creates it; opens nothing.
    init(_ place: Place) {
        self.place = place
        largest = off_t(place.largest)
    }

    deinit { close() }

    /// The path in messages.
    var name: String { quotation(place.path.text) }

    /// True if the file is open.
    var isOpen: Bool { descriptor >= 0 }

    /// True if the open file has no name any more.
    var isDeleted: Bool {
        var information = stat()
        return fstat(descriptor, &information) == 0 && information.st_nlink == 0
    }

    /// Opens the file for appending; creates it if it is missing.
    func open() throws(CommandFailure) {
        close()
        // Not blocking: a FIFO has no reader yet.
        let flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK
        let opened = Glibc.open(place.path.cString, flags, 0o600)
        guard opened >= 0 else { throw refusal(errno) }
        do throws(CommandFailure) {
            size = try check(opened)
        } catch {
            FileLock.close(opened)
            throw error
        }
        descriptor = opened
        largest = off_t(place.largest)
    }

    /// Closes the file.
    func close() {
        if descriptor >= 0 { FileLock.close(descriptor) }
        descriptor = -1
    }

    /// Returns true if the file is empty, or was emptied since the last append, as by copytruncate of logrotate(8).
    func isAtBeginning() throws(CommandFailure) -> Bool {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw failure(errno, "examined") }
        defer { size = information.st_size }
        return information.st_size == 0 || information.st_size < size
    }

    /// Returns true if another file has to begin before so many bytes are appended.
    func isFull(adding count: Int) -> Bool { size > 0 && size + off_t(count) > largest }

    /// Renames the file to FILE.1, FILE.1 to FILE.2 and so on, and opens another one.
    ///
    /// - Returns: The problem if the file cannot be renamed: it is then used until it has grown by its limit once more.
    func rotate() throws(CommandFailure) -> String? {
        if isInItsPlace, let problem = shift() {
            largest = size + off_t(place.largest)
            return problem
        }
        try open()
        return nil
    }

    /// Appends bytes that end with a line: all of them, or none.
    func append(_ bytes: [UInt8]) throws(CommandFailure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                let error = errno
                // A reader could not tell the part of a line that found room from a whole one.
                ftruncate(descriptor, size)
                throw failure(error, "written")
            }
        }
        size += off_t(bytes.count)
    }

    /// True unless the name belongs to another file by now: logrotate(8) has moved this one.
    private var isInItsPlace: Bool {
        var (named, own) = (stat(), stat())
        guard lstat(place.path.cString, &named) == 0, fstat(descriptor, &own) == 0 else { return false }
        return named.st_ino == own.st_ino && named.st_dev == own.st_dev
    }

    /// Returns the path of an older file; 0 is the file itself.
    private func path(_ number: Int) -> ForeignText {
        number == 0 ? place.path : ForeignText(place.path.bytes + Array(".\(number)".utf8))
    }

    /// Makes room for another file; returns the problem if that fails.
    private func shift() -> String? {
        if let other = (0..<place.kept).map({ path($0 + 1) }).first(where: Self.isForeign) {
            return "\(name) goes on growing, because \(quotation(other.text)) is no log of watch; next: move that file away"
        }
        guard place.kept > 0 else { return unlink(place.path.cString) == 0 ? nil : obstacle(errno) }
        for number in (0..<place.kept).reversed() {
            // An older file need not exist.
            guard rename(path(number).cString, path(number + 1).cString) == 0 || errno == ENOENT else { return obstacle(errno) }
        }
        return nil
    }

    private func obstacle(_ error: Int32) -> String {
        "\(name) cannot be renamed and goes on growing: \(errorText(error)) (errno \(error)); next: make its directory writable"
    }

    /// Returns true if a file exists that is no older log.
    private static func isForeign(_ path: ForeignText) -> Bool {
        let file = Glibc.open(path.cString, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)
        // A symbolic link, or the file of another user.
        guard file >= 0 else { return errno == ELOOP || errno == EACCES }
        defer { Glibc.close(file) }
        var information = stat()
        return fstat(file, &information) == 0 && (information.st_mode & S_IFMT != S_IFREG || !hasLines(file))
    }

    /// Returns true if a file is empty or begins like a line of `watch`.
    private static func hasLines(_ file: Int32) -> Bool {
        var bytes = [UInt8](repeating: 0, count: beginning.count)
        let count = pread(file, &bytes, bytes.count, 0)
        return count >= 0 && bytes.prefix(count) == beginning.prefix(count)
    }

    /// Refuses files of other programs and files that others may change, and ends an incomplete line.
    ///
    /// A killed process or a full disk has left such a line.
    ///
    /// - Returns: The file's size.
    private func check(_ descriptor: Int32) throws(CommandFailure) -> off_t {
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            throw CommandFailure(.cannotCreate, "\(name) is no regular file; next: choose another name")
        }
        guard information.st_uid == geteuid() else {
            throw CommandFailure(.notPermitted, "\(name) belongs to another user; next: choose another file")
        }
        guard information.st_mode & 0o022 == 0 else {
            throw CommandFailure(.notPermitted, "\(name) may be written by others; next: chmod go-w \(name)")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else {
            throw CommandFailure(.cannotCreate, "\(name) is the log of another process; next: choose another file")
        }
        guard Self.hasLines(descriptor) else {
            throw CommandFailure(.cannotCreate, "\(name) is no log of watch; next: choose another file")
        }
        var last: UInt8 = 0
        if information.st_size > 0, pread(descriptor, &last, 1, information.st_size - 1) == 1, last != UInt8(ascii: "\n") {
            var end = UInt8(ascii: "\n")
            guard write(descriptor, &end, 1) == 1 else { throw failure(errno, "written") }
            information.st_size += 1
        }
        return information.st_size
    }

    private func refusal(_ error: Int32) -> CommandFailure {
        switch error {
        case ELOOP: CommandFailure(.cannotCreate, "\(name) is a symbolic link; next: name the file itself")
        case EISDIR: CommandFailure(.cannotCreate, "\(name) is a directory; next: name a file in it")
        default: failure(error, "opened")
        }
    }

    private func failure(_ error: Int32, _ action: String) -> CommandFailure {
        CommandFailure(.cannotCreate, name, cannotBe: action, error, otherwise: "check the file and its directory")
    }
}
