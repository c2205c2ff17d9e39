#if Service
import Glibc
import TestSupport
import Testing

/// A connection of a test to the service; its calls block.
final class ServiceConnection: Sendable {
    /// An answer.
    struct Answer {
        var status: Int
        var headers: [String: String]
        var body: String
    }

    private let descriptor: Int32
    private let reader = Reader()

    /// The bytes that were received and not taken yet; used by one thread at a time.
    private final class Reader: @unchecked Sendable {
        // Unchecked: a connection belongs to the test that made it, whose steps follow each other.
        var bytes: [UInt8] = []
        var hasEnded = false
    }

    /// Connects to a place as the service announces it: `http://127.0.0.1:80/`, `http://[::1]:80/` or `unix:PATH`.
    ///
    /// - Parameter receiveBuffer: The size of the kernel's buffer; `nil` for the usual one.
    init(to url: String, receiveBuffer: Int32? = nil) throws {
        let (family, address) = try Self.address(url)
        descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemFailure("socket") }
        if var size = receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        // A test that waits for nothing ends.
        var patience = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let result = address.withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { connect(descriptor, $0.baseAddress, socklen_t(bytes.count)) }
        }
        guard result == 0 else {
            let error = errno
            close(descriptor)
            throw SystemFailure("connect(\(url))", errno: error)
        }
    }

    deinit { close(descriptor) }

    /// Sends bytes; returns false if the service has closed the connection.
    @discardableResult
    func send(_ bytes: some Collection<UInt8>) -> Bool {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    @discardableResult
    func send(_ text: String) -> Bool { send(text.utf8) }

    /// Sends a request with a `Host` that is answered.
    func request(_ path: String, method: String = "GET", headers: [String] = []) {
        send("\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n" + headers.map { $0 + "\r\n" }.joined() + "\r\n")
    }

    /// Sends a request and reads its answer.
    func answer(to path: String, method: String = "GET", headers: [String] = []) throws -> Answer {
        request(path, method: method, headers: headers)
        return try #require(try readAnswer(hasBody: method != "HEAD"))
    }

    /// Reads an answer with its length; `nil` if the connection ends instead.
    func readAnswer(hasBody: Bool = true) throws -> Answer? {
        guard var answer = try readHead() else { return nil }
        let length = answer.headers["content-length"].flatMap { Int($0) } ?? 0
        if hasBody { answer.body = try String(decoding: #require(read(count: length)), as: UTF8.self) }
        return answer
    }

    /// Reads the head of an answer; `nil` if the connection ends instead.
    func readHead() throws -> Answer? {
        guard let head = read(until: "\r\n\r\n") else { return nil }
        let lines = head.split(separator: "\r\n")
        let words = try #require(lines.first).split(separator: " ")
        let status = try #require(Int(words.count > 1 ? words[1] : ""))
        let fields = lines.dropFirst().compactMap { line -> (String, String)? in
            let parts = line.split(separator: ": ", maxSplits: 1)
            return parts.count == 2 ? (parts[0].lowercased(), String(parts[1])) : nil
        }
        return Answer(status: status, headers: Dictionary(fields) { $1 }, body: "")
    }

    /// Reads the next server-sent event of a chunked answer, as its lines.
    ///
    /// - Parameter isMatch: Returns true for the event to return; others are skipped.
    func nextEvent(_ isMatch: ([Substring]) -> Bool = { _ in true }) -> [Substring]? {
        while let block = read(until: "\n\n") {
            // The sizes of chunks stand between the events.
            let lines = Substring(block).split(whereSeparator: \.isNewline).filter { $0.contains(":") }
            if !lines.isEmpty, isMatch(lines) { return lines }
        }
        return nil
    }

    /// Opens the stream of events.
    func openEvents(after lastID: String? = nil) throws {
        request("/events", headers: lastID.map { ["Last-Event-ID: \($0)"] } ?? [])
        let head = try #require(try readHead())
        try #require(head.status == 200 && head.headers["content-type"] == "text/event-stream")
    }

    /// Waits for the end of the connection; false if there is none within a minute.
    func awaitEnd() -> Bool {
        while receive() {}
        return reader.hasEnded
    }

    /// Reads up to a text, and takes it away; `nil` at the end.
    private func read(until end: String) -> String? {
        let end = Array(end.utf8)
        while true {
            if let range = reader.bytes.firstRange(of: end) {
                defer { reader.bytes.removeSubrange(..<range.upperBound) }
                return String(decoding: reader.bytes[..<range.lowerBound], as: UTF8.self)
            }
            guard receive() else { return nil }
        }
    }

    private func read(count: Int) -> [UInt8]? {
        while reader.bytes.count < count { guard receive() else { return nil } }
        defer { reader.bytes.removeFirst(count) }
        return Array(reader.bytes.prefix(count))
    }

    private func receive() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count > 0 { reader.bytes += buffer[..<count] }
        // ECONNRESET is an end, too; EAGAIN is that of the test's patience.
        if count == 0 || (count < 0 && errno != EAGAIN) { reader.hasEnded = true }
        return count > 0
    }

    private static func address(_ url: String) throws -> (family: Int32, [UInt8]) {
        func bytes<Value>(_ value: Value) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }
        if url.hasPrefix("unix:") {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: url.utf8.dropFirst(5)) }
            return (AF_UNIX, bytes(address))
        }
        let place = url.dropFirst("http://".count).dropLast()
        let port = try #require(UInt16(place.split(separator: ":").last ?? ""))
        if place.hasPrefix("[") {
            var address = sockaddr_in6()
            (address.sin6_family, address.sin6_port) = (sa_family_t(AF_INET6), port.bigEndian)
            inet_pton(AF_INET6, "::1", &address.sin6_addr)
            return (AF_INET6, bytes(address))
        }
        var address = sockaddr_in()
        (address.sin_family, address.sin_port) = (sa_family_t(AF_INET), port.bigEndian)
        inet_pton(AF_INET, String(place.prefix { $0 != ":" }), &address.sin_addr)
        return (AF_INET, bytes(address))
    }
}
#endif
