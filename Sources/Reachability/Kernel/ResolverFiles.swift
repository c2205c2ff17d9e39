internal import CNetlink
internal import Glibc

/// The files by which the system looks up names, watched by inotify(7).
///
/// glibc compares the same properties of them before each lookup (resolv_conf.c, nss_database.c). Without a descriptor it sees a
/// change only when it is asked.
///
/// Owned by one thread.
struct ResolverFiles: ~Copyable {
    /// resolv.conf(5), hosts(5) and nsswitch.conf(5); and the name servers of systemd-resolved(8), whose own resolv.conf names only
    /// itself.
    private static let paths = [
        "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/run/systemd/resolve/resolv.conf",
    ]

    /// Names that come and go in a folder: most programs write a new file and rename it.
    private static let folderMask = UInt32(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR)
    /// Writes into the file itself, as through a bind mount, which the folder above it does not report: a container's files.
    private static let fileMask = UInt32(IN_CLOSE_WRITE)
    /// A change that no lookup has followed for this time had no listener: each host is looked up after each change.
    private static let idleTime: Duration = .seconds(5)
    /// Limits the symbolic links of a path, as the kernel does (MAXSYMLINKS, path_resolution(7)).
    private static let linkLimit = 40

    private struct File: Equatable {
        /// The symbolic links on the way to the file; then the file, or the first part of the way that does not exist.
        var places: [String]
        var version: Version?
    }

    /// The properties by which glibc tells versions apart (file_change_detection.c).
    private struct Version: Equatable {
        var numbers: [UInt64]

        /// Creates the version of a file; `nil` if there is none.
        init?(_ path: String) {
            var status = stat()
            guard lstat(path, &status) == 0 else { return nil }
            numbers = [UInt64(status.st_dev), UInt64(status.st_ino), UInt64(bitPattern: Int64(status.st_size))]
            for time in [status.st_mtim, status.st_ctim] {
                numbers += [UInt64(bitPattern: Int64(time.tv_sec)), UInt64(bitPattern: Int64(time.tv_nsec))]
            }
        }
    }

    private let root: String
    private(set) var descriptor: Int32 = -1
    private var epoll: Int32 = -1
    private var watches: Set<Int32> = []
    /// The state of the files; empty before the first look.
    private var files: [File] = []
    /// The time of a reported change that no lookup has followed.
    private var unused: Duration?

    /// - Parameter root: the folder that the paths are in; for tests.
    init(root: String = "") { self.root = root }

    deinit {
        guard descriptor >= 0 else { return }
        // As for sockets: a copy of the descriptor would keep the entry (epoll(7), questions and answers, 6).
        _ = cnl_epoll_remove(epoll, descriptor)
        Glibc.close(descriptor)
    }

    /// Begins to watch, unless it watches already: a host was looked up.
    ///
    /// Without an inotify instance (EMFILE, a sandbox) the next lookup tries again, and the pause after failures limits the delay.
    mutating func noteLookup(reportedBy epoll: borrowing Epoll, at bit: Int32) {
        unused = nil
        guard descriptor < 0 else { return }
        // IN_CLOEXEC and IN_NONBLOCK have the values of these (inotify_init(2)).
        let opened = inotify_init1(O_CLOEXEC | O_NONBLOCK)
        guard opened >= 0 else { return }
        guard (try? epoll.add(opened, at: bit)) != nil else {
            Glibc.close(opened)
            return
        }
        (descriptor, self.epoll) = (opened, epoll.descriptor)
        files = look()
    }

    /// Returns the paths of the files that changed since the last call or the beginning of the watch.
    ///
    /// Ends the watch if no host is looked up after its changes.
    mutating func takeChanges(at now: Duration) -> [String] {
        drain()
        let old = files
        files = look()
        let changes = zip(Self.paths, zip(old, files)).filter { $1.0.version != $1.1.version }.map(\.0)
        if changes.isEmpty { return [] }
        if let unused, now >= unused.saturatingAdd(Self.idleTime) { close() }
        unused = unused ?? now
        return changes
    }

    private mutating func close() {
        guard descriptor >= 0 else { return }
        _ = cnl_epoll_remove(epoll, descriptor)
        Glibc.close(descriptor)
        (descriptor, watches, files) = (-1, [], [])
    }

    /// Reads all events: the files themselves tell what they mean.
    private func drain() {
        guard descriptor >= 0 else { return }
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            while read(descriptor, buffer.baseAddress, buffer.count) > 0 {}
        }
    }

    /// Returns the state of the files, after their places are watched.
    private mutating func look() -> [File] {
        var files = Self.files(in: root)
        // A change between a look and its watch is found by another look. Later changes are events.
        for _ in 0..<4 {
            watch(files)
            let again = Self.files(in: root)
            if again == files { break }
            files = again
        }
        return files
    }

    /// Watches these files and no others.
    private mutating func watch(_ files: [File]) {
        guard descriptor >= 0 else { return }
        var current: Set<Int32> = []
        for file in files {
            for place in file.places {
                current.insert(inotify_add_watch(descriptor, root + Self.folder(of: place) + "/", Self.folderMask))
            }
            if let last = file.places.last, file.version != nil {
                current.insert(inotify_add_watch(descriptor, root + last, Self.fileMask))
            }
        }
        // Adding a watch again returns the same number (inotify_add_watch(2)).
        for stale in watches.subtracting(current) { inotify_rm_watch(descriptor, stale) }
        watches = current
    }

    private static func files(in root: String) -> [File] { paths.map { file($0, in: root) } }

    /// Follows the symbolic links of a path (path_resolution(7)).
    private static func file(_ path: String, in root: String) -> File {
        var file = File(places: [])
        var rest = path.split(separator: "/")[...]
        var folder = ""
        while let name = rest.popFirst(), file.places.count < linkLimit {
            if name == "." { continue }
            if name == ".." {
                folder = self.folder(of: folder)
                continue
            }
            let place = "\(folder)/\(name)"
            if let target = target(of: root + place) {
                file.places.append(place)
                if target.hasPrefix("/") { folder = "" }
                rest = target.split(separator: "/") + rest
            } else if rest.isEmpty || access(root + place, F_OK) != 0 {
                file.places.append(place)
                file.version = rest.isEmpty ? Version(root + place) : nil
                break
            } else {
                folder = place
            }
        }
        return file
    }

    private static func folder(of path: String) -> String { path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "" }

    /// Returns the target of a symbolic link; `nil` for anything else.
    private static func target(of path: String) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
            guard let start = buffer.baseAddress else { return nil }
            let count = readlink(path, start, buffer.count)
            if count < 0 { return nil }
            return String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
        }
    }
}
