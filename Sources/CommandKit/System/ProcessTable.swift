package import Glibc

/// A process in /proc.
package struct ProcessEntry: Hashable {
    /// A process number with its start time: the kernel reuses numbers.
    package struct Identity: Hashable {
        package var pid: pid_t
        /// The start time in ticks since boot.
        package var start: UInt64
    }

    package var identity: Identity
    package var parent: pid_t
    package var group: pid_t
    /// `true` after its end, until its parent reaps it.
    package var isZombie = false

    package var pid: pid_t { identity.pid }
}

extension ProcessEntry {
    /// Parses the line of /proc/PID/stat (proc_pid_stat(5)).
    package init?(stat line: some BidirectionalCollection<UInt8>) {
        // The name may contain any byte, parentheses and spaces too: the other fields follow its last parenthesis.
        guard let end = line.lastIndex(of: UInt8(ascii: ")")), let space = line.firstIndex(of: UInt8(ascii: " "))
        else { return nil }
        let fields = line[line.index(after: end)...].split { $0 == 0x20 || $0 == 0x0a }
        func number<Value: FixedWidthInteger>(_ text: some Sequence<UInt8>) -> Value? {
            Value(String(decoding: Array(text), as: UTF8.self))
        }
        // Field 3 of the manual page is the first one here.
        guard fields.count > 19, let pid: pid_t = number(line[..<space]), let parent: pid_t = number(fields[1]),
            let group: pid_t = number(fields[2]), let threads: Int = number(fields[17]), let start: UInt64 = number(fields[19])
        else { return nil }
        identity = Identity(pid: pid, start: start)
        self.parent = parent
        self.group = group
        // A process whose first thread has ended looks like a zombie, but still runs.
        isZombie = [UInt8(ascii: "Z"), UInt8(ascii: "X")].contains(fields[0].first) && threads <= 1
    }
}

/// The descendants of a process.
package enum ProcessTable {
    /// Returns the living descendants of this process, their subreaper; `nil` if /proc is unreadable or belongs to another
    /// PID namespace.
    ///
    /// - Parameter excluded: Processes to leave out, with their descendants.
    package static func descendants(excluding excluded: Set<ProcessEntry.Identity> = []) -> [ProcessEntry]? {
        guard hasChildren else { return [] }
        guard showsThisNamespace, let names = namesInDirectory("/proc") else { return nil }
        // The others are no processes, or already gone.
        let entries = names.compactMap { pid_t($0).flatMap(entry) }
        return descendants(of: getpid(), among: entries, excluding: excluded)
    }

    /// Returns the living descendants of a process among the given processes.
    package static func descendants(
        of ancestor: pid_t, among entries: [ProcessEntry], excluding excluded: Set<ProcessEntry.Identity>
    ) -> [ProcessEntry] {
        let children = Dictionary(grouping: entries.filter { !excluded.contains($0.identity) }, by: \.parent)
        var found: [ProcessEntry] = []
        var parents = [ancestor]
        // Entries are read one after the other: reused numbers may form a cycle.
        var seen: Set = [ancestor]
        while let parent = parents.popLast() {
            for child in children[parent] ?? [] where seen.insert(child.pid).inserted {
                if !child.isZombie { found.append(child) }
                parents.append(child.pid)
            }
        }
        return found
    }

    private static func entry(_ pid: pid_t) -> ProcessEntry? {
        let descriptor = open("/proc/\(pid)/stat", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // A name has 15 bytes (TASK_COMM_LEN) and the 51 numbers have at most 20 digits.
        var buffer = [UInt8](repeating: 0, count: 2048)
        let count = read(descriptor, &buffer, buffer.count)
        return count > 0 ? ProcessEntry(stat: buffer[..<count]) : nil
    }

    /// `true` if this process has children; a shortcut that avoids reading a table of thousands.
    private static var hasChildren: Bool {
        var information = siginfo_t()
        return waitid(P_ALL, 0, &information, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD
    }

    /// `true` if /proc numbers processes like kill(2); in a container that shows the host's /proc it does not.
    private static var showsThisNamespace: Bool {
        var buffer = [CChar](repeating: 0, count: 32)
        let count = readlink("/proc/self", &buffer, buffer.count)
        return count > 0 && String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self) == "\(getpid())"
    }
}

/// Returns the names in a directory, `.` and `..` among them; `nil` if it cannot be read (readdir(3)).
package func namesInDirectory(_ path: String) -> [String]? {
    opendir(path).map(namesInDirectory)
}

/// Returns the names in an open directory, `.` and `..` among them, and closes it.
func namesInDirectory(_ directory: OpaquePointer) -> [String] {
    defer { closedir(directory) }
    var names: [String] = []
    while let item = readdir(directory) {
        names.append(
            withUnsafePointer(to: &item.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            })
    }
    return names
}
