internal import FoundationEssentials
internal import Glibc

/// The boot, the clocks and the processes of this machine.
enum Machine {
    /// The identity of this boot, which a process cannot outlive (random(4)).
    // Without /proc there is one boot for ever: delays then follow CLOCK_BOOTTIME, which starts again at each boot.
    static let bootID = text(of: "/proc/sys/kernel/random/boot_id")?.split(separator: "\n").first.map(String.init) ?? "unknown"

    static func reading() -> StoreClock.Reading {
        StoreClock.Reading(bootID: bootID, boot: nanoseconds(CLOCK_BOOTTIME), wall: nanoseconds(CLOCK_REALTIME))
    }

    /// Reads a clock (clock_gettime(2)).
    static func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Returns the text of a file; `nil` if it cannot be read.
    static func text(of path: String) -> String? {
        (try? Data(contentsOf: URL(filePath: path))).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The name of this machine in stores that several share: its identity (machine-id(5)) with the network namespace of the
    /// process (network_namespaces(7)), for two namespaces of one machine have networks of their own.
    static let node: String = {
        let identity = text(of: "/etc/machine-id")?.filter(\.isHexDigit) ?? ""
        return (identity.isEmpty ? hostName ?? "" : identity) + "/" + namespace("net")
    }()

    /// The host name, for people (gethostname(2)); `nil` if there is none.
    static var hostName: String? {
        let name = ProcessInfo.processInfo.hostName
        return name.isEmpty ? nil : name
    }

    // MARK: Processes

    /// The boot and the namespace of process numbers: only within both do numbers name processes.
    static let processSpace = bootID + "/" + namespace("pid")

    /// Returns the inode of a namespace of this process (namespaces(7)); "0" without /proc.
    static func namespace(_ kind: String) -> String {
        var status = stat()
        return stat("/proc/self/ns/\(kind)", &status) == 0 ? "\(status.st_ino)" : "0"
    }

    /// This process: its number and the time of its start, so that a number that is used again is another process.
    static let process = "\(getpid()):\(start(of: "self") ?? "0")"

    /// Returns true if a process of this machine may still run.
    static func isAlive(_ process: String) -> Bool {
        let parts = process.split(separator: ":")
        guard parts.count == 2, access("/proc/self/stat", R_OK) == 0 else { return true }
        return start(of: String(parts[0])) == String(parts[1])
    }

    /// Returns the start of a process in clock ticks since the boot, field 22 of /proc/pid/stat (proc_pid_stat(5)); `nil` if there
    /// is none, or a zombie.
    private static func start(of process: String) -> String? {
        // The second field may have spaces and brackets in it.
        guard let text = text(of: "/proc/\(process)/stat"),
            let fields = text.lastIndex(of: ")").map({ text[text.index(after: $0)...].split(separator: " ") }), fields.count > 19,
            fields[0] != "Z"
        else { return nil }
        return String(fields[19])
    }
}
