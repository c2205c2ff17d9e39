import CommandKit
import Glibc
import Reachability

/// The place where the service listens, on the command line: `127.0.0.1:8787`, `[::1]:8787`, `localhost:8787` or `unix:PATH`.
enum ListenAddress: Hashable, Sendable {
    /// A loopback address and a port; port 0 lets the kernel choose one.
    case loopback(String, port: Int)
    /// A Unix socket.
    case socket(String)

    /// The default place.
    static let standard = ListenAddress.loopback("127.0.0.1", port: 8787)

    /// Parses the text.
    init(_ text: String) throws(InvalidArgument) {
        if text.hasPrefix("unix:") {
            self = .socket(try Self.path(String(text.dropFirst(5))))
            return
        }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count >= 2, let last = parts.last, let port = Self.port(last) else {
            throw InvalidArgument("not a place to listen; next: write 127.0.0.1:8787, [::1]:8787 or unix:/run/user/1000/reach.sock")
        }
        let host = parts.dropLast().joined(separator: ":")
        switch host {
        case "localhost": self = .loopback("127.0.0.1", port: port)
        case "[::1]": self = .loopback("::1", port: port)
        case _ where Self.isLoopbackIPv4(host): self = .loopback(host, port: port)
        default:
            throw InvalidArgument(
                "not a loopback address: anyone on the network could read what is served; next: listen on 127.0.0.1, and let "
                    + "`ssh -L 8787:127.0.0.1:8787 HOST` or a reverse proxy that knows its users lead there")
        }
    }

    /// The place as a URL, with the port that the kernel chose.
    func url(port chosen: Int?) -> String {
        switch self {
        case .loopback(let host, let port):
            "http://\(host.contains(":") ? "[\(host)]" : host):\(chosen ?? port)/"
        case .socket(let path): "unix:\(path)"
        }
    }

    /// True for a Unix socket.
    var isSocket: Bool { if case .socket = self { true } else { false } }

    /// Returns true for an address of 127.0.0.0/8.
    static func isLoopbackIPv4(_ text: String) -> Bool {
        guard let address = IPAddress(text) else { return false }
        return address.family == .ipv4 && address.isLoopback
    }

    private static func port(_ text: Substring) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return UInt16(text).map(Int.init)
    }

    private static func path(_ path: String) throws(InvalidArgument) -> String {
        // sun_path of unix(7), with the zero byte at its end.
        let longest = 107
        guard !path.isEmpty, path.utf8.count <= longest, !path.utf8.contains(0) else {
            throw InvalidArgument("the path of a Unix socket has 1 to \(longest) bytes; next: write unix:/run/user/1000/reach.sock")
        }
        return path
    }
}

/// The file of a Unix socket.
struct SocketFile: Hashable {
    let path: String

    /// Makes way for a new socket: removes one that no process listens on.
    ///
    /// - Throws: ``CommandFailure`` if a process listens there, or if the file is something else.
    func prepare() throws(CommandFailure) {
        var info = stat()
        guard lstat(path, &info) == 0 else { return }
        guard info.st_mode & S_IFMT == S_IFSOCK else {
            throw CommandFailure(.cannotCreate, "\(quotation(path)) exists and is no socket; next: name another path with --listen")
        }
        switch connectionError() {
        // EAGAIN: its queue of connections is full.
        case 0, EAGAIN:
            throw CommandFailure(
                .cannotCreate, "another process listens on \(quotation(path)); next: stop it, or name another path with --listen")
        case ECONNREFUSED: break
        case let error:
            throw CommandFailure(
                .notPermitted, "the socket \(quotation(path)) cannot be replaced: \(errorText(error)); next: remove it")
        }
        guard unlink(path) == 0 || errno == ENOENT else {
            throw CommandFailure(
                .cannotCreate, "the socket \(quotation(path)) cannot be removed: \(errorText(errno)); next: check its directory")
        }
    }

    private static let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)

    /// Returns the error of a connection, or 0: ECONNREFUSED means that no process listens (unix(7)).
    private func connectionError() -> Int32 {
        let descriptor = Glibc.socket(AF_UNIX, Self.type, 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        return result == 0 ? 0 : errno
    }
}
