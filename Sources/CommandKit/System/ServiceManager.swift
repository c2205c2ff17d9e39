package import Glibc

/// The service manager that started this process, such as systemd, as its environment describes it.
///
/// `NOTIFY_SOCKET` (sd_notify(3)), `WATCHDOG_USEC` and `WATCHDOG_PID` (sd_watchdog_enabled(3)), `LISTEN_FDS`, `LISTEN_PID` and
/// `LISTEN_FDNAMES` (sd_listen_fds(3)). This is all of libsystemd that a service needs.
package struct ServiceManager: Sendable {
    /// A descriptor that the manager passed.
    package struct Descriptor: Hashable, Sendable {
        package var number: Int32
        /// The name that the manager gave it (FileDescriptorName=, systemd.socket(5)).
        package var name: String
    }

    /// The first of the descriptors (SD_LISTEN_FDS_START).
    private static let firstDescriptor: Int32 = 3
    /// The largest number of descriptors that is believed: the usual limit of open files.
    private static let maxDescriptors: Int32 = 1024

    /// The socket for messages to the manager, as in `NOTIFY_SOCKET`.
    package var notifyAddress: String?
    /// The time after which the manager ends a service that gives no sign of life.
    package var watchdog: Duration?
    /// The descriptors that the manager passed to this process.
    package var descriptors: [Descriptor]

    /// Reads an environment; what is meant for another process, or malformed, counts as absent.
    package init(environment: (String) -> String?, process: pid_t) {
        notifyAddress = environment("NOTIFY_SOCKET").flatMap { $0.isEmpty ? nil : $0 }
        let limit = environment("WATCHDOG_USEC").flatMap { Int64($0) }.flatMap { $0 > 0 ? $0 : nil }
        let isWatched = environment("WATCHDOG_PID").map { pid_t($0) == process } ?? true
        watchdog = isWatched ? limit.map { .microseconds($0) } : nil
        descriptors = Self.descriptors(environment, process)
    }

    private static func descriptors(_ environment: (String) -> String?, _ process: pid_t) -> [Descriptor] {
        guard environment("LISTEN_PID").flatMap({ pid_t($0) }) == process,
            let count = environment("LISTEN_FDS").flatMap({ Int32($0) }), (1...maxDescriptors).contains(count)
        else { return [] }
        let names = environment("LISTEN_FDNAMES")?.split(separator: ":", omittingEmptySubsequences: false).map(String.init) ?? []
        return (0..<count).map { index in
            Descriptor(number: firstDescriptor + index, name: names.count == Int(count) ? names[Int(index)] : "unknown")
        }
    }

    private static let variables = [
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
    ]

    /// Takes the manager's variables out of the environment of this process, so that no child inherits them.
    ///
    /// Descriptors that are not open are left out; the others are closed on exec. Call it before other threads start: environ(7) is
    /// not safe to change later.
    package static func take() -> ServiceManager {
        var manager = ServiceManager(environment: Program.environment, process: getpid())
        for variable in variables { unsetenv(variable) }
        manager.descriptors.removeAll { fcntl($0.number, F_SETFD, FD_CLOEXEC) != 0 }
        return manager
    }
}

/// A socket for messages to a service manager (sd_notify(3)).
package final class NotifySocket: Sendable {
    private let descriptor: Int32
    private let address: sockaddr_un
    private let length: socklen_t

    /// Opens a socket to an address of `NOTIFY_SOCKET`: a path, or `@` and an abstract name (unix(7)).
    ///
    /// - Returns: `nil` for any other address, or if no socket can be opened.
    package init?(_ text: String) {
        guard let (address, length) = Self.parse(text) else { return nil }
        (self.address, self.length) = (address, length)
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        // A manager that does not read holds up this process for no longer.
        var patience = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    private static func parse(_ text: String) -> (sockaddr_un, socklen_t)? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(text.utf8)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        switch bytes.first {
        case UInt8(ascii: "/"):
            // A path ends with a zero byte.
            guard bytes.count < capacity else { return nil }
        case UInt8(ascii: "@"):
            guard bytes.count > 1, bytes.count <= capacity else { return nil }
            bytes[0] = 0
        default:
            return nil
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let end = bytes.count + (bytes[0] == 0 ? 0 : 1)
        return (address, socklen_t(MemoryLayout<sockaddr_un>.size - capacity + end))
    }

    /// Sends a message; returns false if the manager did not take it.
    @discardableResult
    package func send(_ message: String) -> Bool {
        let bytes = Array(message.utf8)
        let sent = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), $0, length)
            }
        }
        return sent == bytes.count
    }
}
