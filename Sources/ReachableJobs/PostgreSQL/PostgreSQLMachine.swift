#if PostgreSQL
internal import FoundationEssentials
internal import Glibc

/// The processes and the boot clock of this machine, which tests replace.
package struct PostgreSQLMachine: Sendable {
    /// The machine's boot and the namespace of its process numbers: only within both do numbers name processes.
    package var name: String
    /// This process: its number and the time of its start, so that a number that is used again is another process.
    package var process: String
    /// The host name, for people; `nil` if there is none.
    package var host: String?
    /// True if a process of this machine may still run.
    package var isAlive: @Sendable (_ process: String) -> Bool

    /// Returns the identity of the boot (/proc/sys/kernel/random/boot_id, random(4)).
    package var bootID: @Sendable () -> String
    /// Returns the nanoseconds since boot, suspension included (CLOCK_BOOTTIME, clock_gettime(2)).
    package var bootTime: @Sendable () -> Int64

    /// Creates a machine.
    package init(
        name: String, process: String, host: String? = nil, bootID: @escaping @Sendable () -> String = { boot },
        bootTime: @escaping @Sendable () -> Int64 = readBootTime, isAlive: @escaping @Sendable (String) -> Bool
    ) {
        (self.name, self.process, self.host, self.isAlive) = (name, process, host, isAlive)
        (self.bootID, self.bootTime) = (bootID, bootTime)
    }

    /// This machine and process.
    package static let kernel = PostgreSQLMachine(
        name: boot + "/" + namespace, process: "\(getpid()):\(start(of: "self") ?? "0")", host: NodeName.hostName,
        isAlive: { process in
            let parts = process.split(separator: ":")
            guard parts.count == 2, access("/proc/self/stat", R_OK) == 0 else { return true }
            return start(of: String(parts[0])) == String(parts[1])
        })

    /// Returns the number of a process.
    static func number(of process: String) -> Int? { process.split(separator: ":").first.flatMap { Int($0) } }

    /// The identity of this boot, which a process cannot outlive.
    package static let boot: String = {
        let id = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return id.map { $0.filter { $0 != "\n" } } ?? "unknown"
    }()

    /// Returns the nanoseconds since boot.
    @Sendable package static func readBootTime() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    private static var namespace: String {
        var status = stat()
        return stat("/proc/self/ns/pid", &status) == 0 ? "\(status.st_ino)" : "0"
    }

    /// Returns the start of a process in clock ticks since the boot, field 22 of /proc/pid/stat (proc_pid_stat(5)); `nil` if there
    /// is none, or a zombie.
    private static func start(of process: String) -> String? {
        // The second field may have spaces and brackets in it.
        guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
            let fields = text.lastIndex(of: ")").map({ text[text.index(after: $0)...].split(separator: " ") }), fields.count > 19,
            fields[0] != "Z"
        else { return nil }
        return String(fields[19])
    }
}
#endif
