import Glibc
import Testing

/// The socket of a service manager.
final class NotifyReceiver {
    let address: String
    private let descriptor: Int32

    init(_ address: String) throws {
        self.address = address
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        let bytes = address.hasPrefix("@") ? [0] + Array(address.utf8.dropFirst()) : Array(address.utf8) + [0]
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let result = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        try #require(result == 0, "bind(\(address)): errno \(errno)")
    }

    deinit {
        close(descriptor)
        if !address.hasPrefix("@") { unlink(address) }
    }

    /// Waits for the next message; `nil` if there is none within this time.
    func next(within seconds: Int = 60) -> String? {
        var patience = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count < 0 ? nil : String(decoding: buffer.prefix(count), as: UTF8.self)
    }
}

extension NotifyReceiver {
    /// Makes a socket at a path of its own.
    convenience init() throws { try self.init("/tmp/reachability-notify-\(getpid())-\(UInt32.random(in: 0 ... .max))") }

    /// Waits for a message, and skips others; `nil` if none comes for a minute.
    func next(where isMatch: (String) -> Bool) -> String? {
        while let message = next() {
            if isMatch(message) { return message }
        }
        return nil
    }
}
