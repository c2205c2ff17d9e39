import Glibc
import Synchronization
import TestSupport

/// The built command as a child process.
struct WatchProcess {
    let pid: pid_t
    let output: Pipe
    let errors: Pipe

    /// Starts the command.
    ///
    /// - Parameters:
    ///   - arguments: The words after its name.
    ///   - outputPath: A file for its standard output instead of the pipe.
    ///   - shell: Commands of sh(1) to run first, in the same process.
    init(_ arguments: [String], outputPath: String? = nil, after shell: String? = nil) throws {
        output = try Pipe()
        errors = try Pipe()
        let prefix = shell.map { ["/bin/sh", "-c", "\($0); exec \"$0\" \"$@\""] } ?? []
        // Pass on only the variables that a sanitizer may need.
        let kept = ["LD_PRELOAD", "TSAN_OPTIONS"].compactMap { (name: String) -> String? in
            variable(name).map { (value: String) in "\(name)=\(value)" }
        }
        pid = try spawn(prefix + [Self.path] + arguments, environment: ["LC_ALL=C.UTF-8"] + kept) { [output, errors] actions in
            if let outputPath {
                posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, outputPath, O_WRONLY, 0)
            } else {
                posix_spawn_file_actions_adddup2(&actions, output.writeEnd, STDOUT_FILENO)
            }
            posix_spawn_file_actions_adddup2(&actions, errors.writeEnd, STDERR_FILENO)
        }
        output.closeWriteEnd()
        errors.closeWriteEnd()
    }

    /// Waits for its end; returns the exit code, or 1000 + the signal that killed it.
    func end() -> Int32 { awaitEnd(of: pid) }

    /// Runs the command to its end.
    static func run(_ arguments: [String], after shell: String? = nil) throws -> Outcome {
        let process = try WatchProcess(arguments, after: shell)
        let (output, errors) = (process.output.readAll(), process.errors.readAll())
        return Outcome(code: process.end(), output: output, errors: errors)
    }

    static let path = builtProgram("reachability-watch")
}

/// A pipe(7) that is closed with its owner.
final class Pipe: Sendable {
    let writeEnd: Int32
    private let readEnd: Int32
    private let isReadEndOpen = Mutex(true)
    private let isWriteEndOpen = Mutex(true)

    init() throws {
        // pipe(2) could leak into children that other tests start before the descriptors are marked close-on-exec.
        let path = "/tmp/reachability-watch-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        guard mkfifo(path, 0o600) == 0 else { throw SystemFailure("mkfifo(\(path))") }
        defer { unlink(path) }
        readEnd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        writeEnd = open(path, O_WRONLY | O_CLOEXEC)
        guard readEnd >= 0, writeEnd >= 0, fcntl(readEnd, F_SETFL, 0) == 0 else { throw SystemFailure("mkfifo(\(path))") }
    }

    deinit {
        closeReadEnd()
        closeWriteEnd()
    }

    func closeReadEnd() {
        isReadEndOpen.withLock { isOpen in
            if isOpen { close(readEnd) }
            isOpen = false
        }
    }

    func closeWriteEnd() {
        isWriteEndOpen.withLock { isOpen in
            if isOpen { close(writeEnd) }
            isOpen = false
        }
    }

    /// Returns the result of one read.
    func available() -> String {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(readEnd, &buffer, buffer.count)
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }

    /// Returns the text up to a line's end, which is dropped, or to the end of the file.
    func readLine() -> String {
        var text = ""
        while !text.hasSuffix("\n") {
            let more = available()
            if more.isEmpty { return text }
            text += more
        }
        return String(text.dropLast())
    }

    /// Returns the text up to the end of the file.
    func readAll() -> String {
        var text = ""
        while case let more = available(), !more.isEmpty { text += more }
        return text
    }
}
