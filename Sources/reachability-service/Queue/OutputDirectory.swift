import CProcess
import CommandKit
import Glibc
import Reachability
import ReachableJobs

/// The directory with the output of attempts: a file for each attempt, named by its job and number.
struct OutputDirectory: Sendable {
    /// The number of bytes of an attempt's output that are kept.
    static let keptBytes = 1 << 20
    /// The number of attempts of a job whose output is kept.
    static let keptAttempts = 5

    let path: String

    /// An attempt whose output is there.
    struct Entry: Hashable, Comparable {
        var job: DurableJobID
        var attempt: Int

        var name: String { "\(job).\(attempt)" }

        init(job: DurableJobID, attempt: Int) { (self.job, self.attempt) = (job, attempt) }

        /// Reads a file's name; `nil` if the file is another one.
        init?(name: some StringProtocol) {
            let parts = name.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 2, let job = DurableJobID(String(parts[0])), let attempt = Int(parts[1]) else { return nil }
            (self.job, self.attempt) = (job, attempt)
        }

        static func < (left: Self, right: Self) -> Bool { left.attempt < right.attempt }
    }

    /// Creates the file of an attempt and the directory if it is missing; returns a descriptor that appends.
    ///
    /// Removes the file of the attempt that is one too many: each attempt removes one.
    ///
    /// - Throws: The failure that ``ChildFailure`` reports: with a full disk the job runs again later.
    func create(_ entry: Entry) throws(ChildFailure) -> Int32 {
        mkdir(path, 0o700)
        unlink("\(path)/\(Entry(job: entry.job, attempt: entry.attempt - Self.keptAttempts).name)")
        let file = "\(path)/\(entry.name)"
        // An attempt that was claimed and not started has left an empty file.
        let descriptor = Glibc.open(file, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw ChildFailure(cause: .notStarted(file, errno)) }
        return descriptor
    }

    /// Returns the attempts of a job whose output is there, by number.
    func entries(of job: DurableJobID) -> [Entry] { entries().filter { $0.job == job }.sorted() }

    /// Opens the output of an attempt for reading; `nil` if it is gone.
    func open(_ entry: Entry) -> Int32? {
        let descriptor = Glibc.open("\(path)/\(entry.name)", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        return descriptor >= 0 ? descriptor : nil
    }

    /// Removes the output of jobs that the store does not have any more.
    func prune(keeping jobs: Set<DurableJobID>) {
        for entry in entries() where !jobs.contains(entry.job) { unlink("\(path)/\(entry.name)") }
    }

    /// Returns the jobs with output.
    var jobs: Set<DurableJobID> { Set(entries().map(\.job)) }

    private func entries() -> [Entry] { (namesInDirectory(path) ?? []).compactMap(Entry.init) }
}

/// Frees the beginning of a growing file, so that its end takes a bounded space on the disk.
enum OutputLimit {
    /// Starts a thread that frees all but the last mebibyte whenever the file at a descriptor has grown by another one.
    static func watch(_ descriptor: Int32) {
        let events = inotify_init1(Int32(O_CLOEXEC))
        guard events >= 0 else { return }
        guard inotify_add_watch(events, "/proc/self/fd/\(descriptor)", UInt32(IN_MODIFY)) >= 0 else {
            close(events)
            return
        }
        SystemThread.start {
            var buffer = [UInt8](repeating: 0, count: 4096)
            var freed: off_t = 0
            while read(events, &buffer, buffer.count) > 0 { free(descriptor, &freed) }
        }
    }

    private static func free(_ descriptor: Int32, _ freed: inout off_t) {
        var info = stat()
        let kept = off_t(OutputDirectory.keptBytes)
        guard fstat(descriptor, &info) == 0, info.st_size - freed >= 2 * kept else { return }
        let end = (info.st_size - kept) & ~4095
        // A file system without holes keeps everything.
        freed = cprocess_free_beginning(descriptor, Int64(end)) == 0 ? end : .max / 2
    }
}
