package import Foundation

/// A failed system call.
package struct SystemFailure: Error {
    package var operation: String
    package var errno: Int32

    package init(_ operation: String, errno: Int32 = Glibc.errno) { (self.operation, self.errno) = (operation, errno) }
}

/// A folder of one test, deleted with all that is in it when it is released.
package final class TemporaryFolder: Sendable {
    package let path: String

    /// A file system in memory, if there is one: for tests that would wait for the disk most of the time.
    package static let memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : disk
    package static let disk = FileManager.default.temporaryDirectory.path

    package init(in parent: String = TemporaryFolder.disk) throws {
        var template = Array("\(parent)/reachability-XXXXXX".utf8CString)
        guard let path = mkdtemp(&template) else { throw SystemFailure("mkdtemp(\(parent))") }
        self.path = String(cString: path)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    package var url: URL { URL(fileURLWithPath: path, isDirectory: true) }

    /// The names of the files in it, sorted.
    package var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted() }

    /// Makes a folder in it, with those on the way; returns its path.
    @discardableResult
    package func makeFolder(_ name: String) throws -> String {
        try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: true)
        return "\(path)/\(name)"
    }

    /// Returns the text of a file; an empty one if there is none.
    package func read(_ name: String) -> String { readFile("\(path)/\(name)") }

    /// Writes a file in place and in one step, and makes the folders on the way; returns its path.
    ///
    /// - Parameter mode: The file's mode, whatever umask(2) says; `nil` for 644 without the bits of umask(2).
    @discardableResult
    package func write(_ bytes: some Collection<UInt8>, to name: String, mode: mode_t? = nil) throws -> String {
        let (bytes, file) = (Array(bytes), "\(path)/\(name)")
        if let end = name.lastIndex(of: "/") { try makeFolder(String(name[..<end])) }
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode ?? 0o644)
        guard descriptor >= 0 else { throw SystemFailure("open(\(file))") }
        defer { close(descriptor) }
        guard mode.map({ fchmod(descriptor, $0) == 0 }) ?? true, Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
            throw SystemFailure("write(\(file))")
        }
        return file
    }

    /// Writes a program by another process.
    ///
    /// A child that another test starts would inherit this process's descriptor, and execve(2) would fail with ETXTBSY.
    package func writeProgram(_ text: String, to name: String, mode: mode_t = 0o755) throws {
        let script = "printf '%s\\n' \"$1\" >\"$0.new\" && chmod $2 \"$0.new\" && mv \"$0.new\" \"$0\""
        let code = awaitEnd(of: try spawn(["sh", "-c", script, "\(path)/\(name)", text, String(mode, radix: 8)]))
        guard code == 0 else { throw SystemFailure("writing \(name)", errno: code) }
    }

    @discardableResult
    package func write(_ text: String, to name: String, mode: mode_t? = nil) throws -> String {
        try write(text.utf8, to: name, mode: mode)
    }
}

/// Returns the text of a file, also of one in /proc; an empty one if there is none.
package func readFile(_ path: String) -> String {
    (try? FileHandle(forReadingFrom: URL(fileURLWithPath: path)).readToEnd()).map { String(decoding: $0, as: UTF8.self) } ?? ""
}

/// Returns a number of /proc/PID/status, such as VmRSS in KiB or Threads.
package func processStatus(_ key: String, of pid: pid_t = getpid()) -> Int? {
    let line = readFile("/proc/\(pid)/status").split(separator: "\n").first { $0.hasPrefix("\(key):") }
    return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
}

/// The descriptors that this process has open, and what they lead to.
package func openFiles() throws -> [Int32: String] {
    let folder = "/proc/self/fd"
    let numbers = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap { Int32($0) }
    return Dictionary(
        uniqueKeysWithValues: numbers.map { number in
            (number, (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(number)")) ?? "")
        })
}
