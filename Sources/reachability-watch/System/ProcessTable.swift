import Glibc

/// A process as /proc shows it.
struct ProcessEntry: Hashable {
    /// A number and a start time: the kernel uses numbers again.
    struct Identity: Hashable {
        var pid: pid_t
        /// In ticks since the machine was booted.
        var start: UInt64
    }

    var identity: Identity
    var parent: pid_t
    var group: pid_t
    /// Whether it has ended and waits for its parent to take its exit code.
    var isZombie = false

    var pid: pid_t { identity.pid }
}

extension ProcessEntry {
    /// Reads the line of /proc/PID/stat (proc_pid_stat(5)); `nil` if it is none.
    init?(stat line: some BidirectionalCollection<UInt8>) {
        // The name may contain any byte, parentheses and spaces too: the fields are those behind its last parenthesis.
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
        // A process whose first thread has ended looks like a zombie, and goes on.
        isZombie = [UInt8(ascii: "Z"), UInt8(ascii: "X")].contains(fields[0].first) && threads <= 1
    }
}

/// The processes that descend from this one.
enum ProcessTable {
    /// The living descendants of this process, which is their subreaper; `nil` if /proc cannot be read or numbers processes of
    /// another namespace.
    ///
    /// - Parameter excluded: processes to leave out, with their descendants.
    static func descendants(excluding excluded: Set<ProcessEntry.Identity> = []) -> [ProcessEntry]? {
        guard hasChildren else { return [] }
        guard showsThisNamespace, let folder = opendir("/proc") else { return nil }
        defer { closedir(folder) }
        var entries: [ProcessEntry] = []
        while let item = readdir(folder) {
            let name = withUnsafePointer(to: &item.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            // Not a process, or one that has ended.
            guard let pid = pid_t(name), let entry = entry(pid) else { continue }
            entries.append(entry)
        }
        return descendants(of: getpid(), among: entries, excluding: excluded)
    }

    /// The living descendants of a process among all that there are.
    static func descendants(
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

    /// Whether this process has children: without any there are no descendants, and a table of thousands is not read.
    private static var hasChildren: Bool {
        var information = siginfo_t()
        return waitid(P_ALL, 0, &information, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD
    }

    /// Whether /proc numbers processes as kill(2) does here: in a container that shows the host's it does not.
    private static var showsThisNamespace: Bool {
        var buffer = [CChar](repeating: 0, count: 32)
        let count = readlink("/proc/self", &buffer, buffer.count)
        return count > 0 && String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self) == "\(getpid())"
    }
}
