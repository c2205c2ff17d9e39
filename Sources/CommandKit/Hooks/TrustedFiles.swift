package import Glibc

/// The reason why a directory or a file of hooks is refused.
package struct HookProblem: Error, Hashable, CustomStringConvertible {
    /// The reason and, after `next:`, a remedy.
    package let description: String
    /// True if the file is missing or unreadable, and false if other users could change it.
    package var isMissing = false
}

/// Opens files that only root and this program's user can change or replace.
///
/// Follows a path name by name, as chase() of systemd does, and checks each directory on the way by its descriptor; a symbolic link
/// counts as its target. Only the trusted users can replace a file that was checked, so that it can be executed by its path.
package struct TrustedFiles: Sendable {
    /// An open file (O_PATH), and its properties.
    struct File: ~Copyable {
        let descriptor: Int32
        let information: stat

        deinit { close(descriptor) }

        var kind: mode_t { information.st_mode & S_IFMT }
    }

    /// O_PATH of asm-generic/fcntl.h, which Swift cannot import.
    private static let pathOnly: Int32 = 0o10_000_000
    /// The kernel's limit of links in a path (MAXSYMLINKS, path_resolution(7)).
    private static let mostLinks = 40

    private let owners: Set<uid_t>
    /// The owner of the root directory, too: it can replace every path, and in a user namespace it may not be user 0.
    private let ownersOfWay: Set<uid_t>

    /// - Parameter owners: The users that may own files: root and this program's user.
    package init(owners: Set<uid_t> = [0, geteuid()]) {
        self.owners = owners
        var root = stat()
        ownersOfWay = stat("/", &root) == 0 ? owners.union([root.st_uid]) : owners
    }

    /// Opens a file or a directory; `nil` if there is none.
    ///
    /// - Parameters:
    ///   - path: The path.
    ///   - start: The directory in which a relative path begins.
    ///   - subject: The file in messages, such as `the hook /etc/h/a`.
    func open(_ path: [UInt8], in start: Int32 = AT_FDCWD, _ subject: String) throws(HookProblem) -> File? {
        let slash = UInt8(ascii: "/")
        var names = [path]
        var links = 0
        guard var place = try find(path.first == slash ? "/" : ".", in: start, subject) else { return nil }
        while let path = names.popLast() {
            guard let (name, rest) = Self.split(path) else { continue }
            if !rest.isEmpty { names.append(rest) }
            if let problem = Self.problem(of: place, asWayTo: subject, ownersOfWay) { throw problem }
            guard let next = try find(name, in: place.descriptor, subject) else { return nil }
            guard next.kind == S_IFLNK else {
                place = next
                continue
            }
            links += 1
            guard links <= Self.mostLinks else { throw Self.unreadable(subject, ELOOP) }
            // Other users can create links in a directory with the sticky bit.
            if place.information.st_mode & 0o022 != 0, !ownersOfWay.contains(next.information.st_uid) {
                throw HookProblem(
                    description: "\(subject) is reached through a link of user \(next.information.st_uid) in a directory "
                        + "that other users can write; next: name the file itself")
            }
            let target = Self.target(of: next)
            if target.first == slash {
                guard let root = try find("/", in: start, subject) else { return nil }
                place = root
            }
            names.append(target)
        }
        return place
    }

    /// Returns the problem of a file or a directory itself; `nil` if only the owners can change it.
    ///
    /// An access control list that lets others write shows in the bits of the group (acl(5), "correspondence").
    func problem(of file: borrowing File, _ subject: String) -> HookProblem? {
        let (owner, mode) = (file.information.st_uid, file.information.st_mode)
        if !owners.contains(owner) {
            return HookProblem(
                description: "\(subject) belongs to user \(owner), who could change it; next: give it to root (chown root)")
        }
        if mode & 0o022 != 0 {
            return HookProblem(description: "\(subject) can be written by other users; next: chmod go-w")
        }
        if file.kind == S_IFREG, mode & (S_ISUID | S_ISGID) != 0 {
            return HookProblem(description: "\(subject) runs as another user or group; next: chmod ug-s")
        }
        return nil
    }

    /// Returns the problem of a file that cannot be read.
    static func unreadable(_ subject: String, _ number: Int32) -> HookProblem {
        HookProblem(
            description: "\(subject) cannot be read: \(errorText(number)); next: create it, or correct the path or its permissions",
            isMissing: true)
    }

    /// Returns the problem of a directory on the way to a file: other users could put another file in its place.
    ///
    /// With the sticky bit they cannot replace what belongs to the owners (unlink(2)).
    private static func problem(of directory: borrowing File, asWayTo subject: String, _ owners: Set<uid_t>) -> HookProblem? {
        let (owner, mode) = (directory.information.st_uid, directory.information.st_mode)
        if !owners.contains(owner) {
            return HookProblem(
                description: "\(subject) is in \(name(of: directory)), which belongs to user \(owner), who could replace it; "
                    + "next: move it to a directory of root")
        }
        guard mode & 0o022 != 0, mode & S_ISVTX == 0 else { return nil }
        return HookProblem(
            description: "\(subject) is in \(name(of: directory)), which can be written by other users; next: chmod go-w")
    }

    private func find(_ name: String, in directory: Int32, _ subject: String) throws(HookProblem) -> File? {
        try find(Array(name.utf8), in: directory, subject)
    }

    private func find(_ name: [UInt8], in directory: Int32, _ subject: String) throws(HookProblem) -> File? {
        let (path, flags) = (ForeignText(name).cString, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
        // As a directory first: that mounts an automount point (open(2), O_PATH).
        var descriptor = openat(directory, path, flags | O_DIRECTORY)
        if descriptor < 0, errno == ENOTDIR { descriptor = openat(directory, path, flags) }
        var information = stat()
        if descriptor >= 0, fstat(descriptor, &information) == 0 {
            return File(descriptor: descriptor, information: information)
        }
        let number = errno
        if descriptor >= 0 { close(descriptor) }
        if number == ENOENT { return nil }
        throw Self.unreadable(subject, number)
    }

    /// Returns the first name of a path and the rest; `nil` if it has none.
    private static func split(_ path: [UInt8]) -> (name: [UInt8], rest: [UInt8])? {
        let slash = UInt8(ascii: "/")
        let names = path.drop { $0 == slash }
        let name = names.prefix { $0 != slash }
        return name.isEmpty ? nil : (Array(name), Array(names.dropFirst(name.count)))
    }

    private static func target(of link: borrowing File) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = readlinkat(link.descriptor, "", &buffer, buffer.count)
        return Array(buffer.prefix(max(0, count)))
    }

    /// Returns the path of an open directory for messages (proc_pid_fd(5)).
    private static func name(of directory: borrowing File) -> String {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/fd/\(directory.descriptor)", &buffer, buffer.count)
        return count > 0 ? quotation(ForeignText(Array(buffer.prefix(count))).text) : "a directory"
    }
}
