#if SQLite
internal import FoundationEssentials
internal import Glibc
internal import Reachability

/// The clocks, mounts and disk of the machine, which tests replace.
package struct SQLiteMachine: Sendable {
    /// Reads the clocks that decide about delays.
    package var reading: @Sendable () -> StoreClock.Reading
    /// Reads CLOCK_MONOTONIC in nanoseconds: it stands still while the machine is suspended, and so do leases.
    package var monotonic: @Sendable () -> Int64
    package var mounts: @Sendable () -> String
    /// Writes the names in a directory to the disk; returns 0 or an errno.
    package var synchronize: @Sendable (_ directory: String) -> Int32

    package init(
        reading: @escaping @Sendable () -> StoreClock.Reading, monotonic: @escaping @Sendable () -> Int64,
        mounts: @escaping @Sendable () -> String,
        synchronize: @escaping @Sendable (_ directory: String) -> Int32 = { SQLiteMachine.synchronizeDirectory($0) }
    ) {
        (self.reading, self.monotonic, self.mounts, self.synchronize) = (reading, monotonic, mounts, synchronize)
    }

    package static let kernel = SQLiteMachine(
        reading: { Machine.reading() }, monotonic: { Machine.nanoseconds(CLOCK_MONOTONIC) },
        mounts: { Machine.text(of: "/proc/self/mountinfo") ?? "" })

    package static func synchronizeDirectory(_ path: String) -> Int32 {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        return fsync(descriptor) == 0 ? 0 : errno
    }
}

struct SQLiteFile {
    let path: String

    /// Creates the file and its directory if they are missing, and refuses files that are not safe to use.
    ///
    /// An existing file is not opened here: closing a descriptor drops all locks that this process has on the file (fcntl(2)),
    /// also those of another store.
    ///
    /// - Returns: True if the file is new or empty.
    func prepare(_ machine: SQLiteMachine) throws(JobStoreError) -> Bool {
        guard try create(machine) else { return false }
        // The directory may be as new as the file; SQLite writes the names in it to the disk, but not its own.
        let parent = SQLiteFile(path: directory).directory
        let error = machine.synchronize(parent)
        // A directory that this user may not list, and file systems without this call (fsync(2)).
        if [0, EACCES, EINVAL].contains(error) { return true }
        throw JobStoreError(
            .inputOutput, "the directory \(parent) cannot be written to the disk: \(String(cString: strerror(error)))",
            next: "check the disk and the kernel's log")
    }

    private func create(_ machine: SQLiteMachine) throws(JobStoreError) -> Bool {
        let directory = self.directory
        var info = stat()
        if stat(directory, &info) != 0 {
            guard mkdir(directory, 0o700) == 0 || errno == EEXIST, stat(directory, &info) == 0 else {
                throw failure("the directory \(directory) cannot be created")
            }
        }
        try checkOwner(of: directory, info, isDirectory: true)
        try Self.checkFileSystem(of: directory, info.st_dev, machine)
        // A log that only its owner can create may be missing: SQLite would say that it cannot open the file.
        guard access(directory, W_OK | X_OK) == 0 else { throw failure("the directory \(directory) cannot be written") }
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 {
            close(descriptor)
            return true
        }
        guard errno == EEXIST else { throw failure("\(path) cannot be created") }
        guard stat(path, &info) == 0 else { throw failure("\(path) cannot be read") }
        guard info.st_mode & S_IFMT == S_IFREG else {
            throw JobStoreError(.foreign, "\(path) is not a regular file", next: "name another file")
        }
        try checkOwner(of: path, info, isDirectory: false)
        guard access(path, R_OK | W_OK) == 0 else { throw failure("\(path) cannot be written") }
        try Self.checkFileSystem(of: path, info.st_dev, machine)
        return info.st_size == 0
    }

    var directory: String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        // A path may have several slashes in a row.
        guard let end = path[..<slash].lastIndex(where: { $0 != "/" }) else { return "/" }
        return String(path[...end])
    }

    private func checkOwner(of path: String, _ info: stat, isDirectory: Bool) throws(JobStoreError) {
        // In a directory such as /tmp only the owner may replace a file (the sticky bit, unlink(2)).
        if isDirectory, info.st_mode & mode_t(S_ISVTX) != 0 { return }
        guard info.st_uid == geteuid() || (isDirectory && info.st_uid == 0) else {
            throw JobStoreError(.insecure, "\(path) belongs to another user", next: "use a file of your own")
        }
        guard info.st_mode & 0o022 == 0 else {
            throw JobStoreError(
                .insecure, "other users may write \(path), and so change the jobs", next: "run `chmod go-w \(path)`")
        }
    }

    static func checkFileSystem(of path: String, _ device: dev_t, _ machine: SQLiteMachine) throws(JobStoreError) {
        // gnu_dev_major of sys/sysmacros.h, a macro.
        let major = (device >> 8) & 0xfff | (device >> 32) & ~0xfff
        let minor = device & 0xff | (device >> 12) & ~0xff
        guard let type = networkFileSystem(major: UInt64(major), minor: UInt64(minor), mounts: machine.mounts()) else { return }
        throw JobStoreError(
            .networkFileSystem, "\(path) is on a network file system (\(type)), where locks and shared memory do not hold",
            next: "use a local disk")
    }

    /// Returns the type of a device's file system if it is a network's; `nil` for local and unknown ones.
    ///
    /// - Parameter mounts: The text of /proc/self/mountinfo (proc_pid_mountinfo(5)). The magic number of statfs(2) would not
    ///   tell sshfs from local FUSE file systems.
    static func networkFileSystem(major: UInt64, minor: UInt64, mounts: String) -> String? {
        for line in mounts.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count > 2, fields[2] == "\(major):\(minor)", let dash = fields.dropFirst(6).firstIndex(of: "-"),
                dash + 1 < fields.count
            else { continue }
            let type = String(fields[dash + 1])
            return networkTypes.contains(type) ? type : nil
        }
        return nil
    }

    private static let networkTypes: Set<String> = [
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "coda", "ncpfs", "lustre", "gpfs", "orangefs", "pvfs2", "gfs2",
        "ocfs2", "vboxsf", "vmhgfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse",
        "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.mount-s3", "fuse.juicefs", "fuse.curlftpfs", "fuse.vmhgfs-fuse",
        "fuse.nfs", "fuse.smbnetfs", "fuse.mfs", "fuse.seaweedfs",
    ]

    private func failure(_ message: String) -> JobStoreError {
        let error = errno
        let reason = String(cString: strerror(error))
        switch error {
        case ENOSPC, EDQUOT: return JobStoreError(.diskFull, "\(message): \(reason)", next: "free some space")
        case EROFS, EACCES, EPERM:
            return JobStoreError(.readOnly, "\(message): \(reason)", next: "check the permissions, or name another directory")
        default: return JobStoreError(.unavailable, "\(message): \(reason)", next: "name a file in an existing directory")
        }
    }
}
#endif
