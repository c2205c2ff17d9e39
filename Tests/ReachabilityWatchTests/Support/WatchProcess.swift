import Glibc
import Synchronization

/// The built command as a child process.
///
/// The executable is next to the test bundle.
struct WatchProcess {
    let pid: pid_t
    let output: Pipe
    let errors: Pipe

    struct Failure: Error {
        var operation: String
        var errno: Int32
    }

    /// Starts the command.
    ///
    /// - Parameters:
    ///   - arguments: The words after its name.
    ///   - outputPath: A file for its standard output instead of the pipe.
    ///   - shell: Commands of sh(1) to run first, in the same process.
    init(_ arguments: [String], outputPath: String? = nil, after shell: String? = nil) throws {
        output = try Pipe()
        errors = try Pipe()
        let path = try Self.path()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let outputPath {
            posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, outputPath, O_WRONLY, 0)
        } else {
            posix_spawn_file_actions_adddup2(&actions, output.writeEnd, STDOUT_FILENO)
        }
        posix_spawn_file_actions_adddup2(&actions, errors.writeEnd, STDERR_FILENO)
        let prefix = shell.map { ["/bin/sh", "-c", "\($0); exec \"$0\" \"$@\""] } ?? []
        var words = (prefix + [path] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        // Pass on only the variables that a sanitizer may need.
        let names: [String] = ["LD_PRELOAD", "TSAN_OPTIONS"]
        let kept = names.compactMap { (name: String) -> String? in getenv(name).map { "\(name)=\(String(cString: $0))" } }
        let settings = ["LC_ALL=C.UTF-8"] + kept
        var environment = settings.map { strdup($0) } + [nil]
        defer { for variable in environment { free(variable) } }
        // This process may have inherited ignored signals, from nohup(1) or an interpreter.
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ] { sigaddset(&defaults, signal) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        // This thread may block signals, and the child inherits that. It unblocks those that it handles itself.
        var mask = sigset_t()
        pthread_sigmask(SIG_BLOCK, nil, &mask)
        sigdelset(&mask, SIGHUP)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        var pid = pid_t()
        let error = posix_spawn(&pid, prefix.first ?? path, &actions, &attributes, &words, &environment)
        guard error == 0 else { throw Failure(operation: "posix_spawn(\(path))", errno: error) }
        self.pid = pid
        output.closeWriteEnd()
        errors.closeWriteEnd()
    }

    /// Waits for its end; returns the exit code, or 1000 + the signal that killed it.
    func end() -> Int32 {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) == -1, errno == EINTR {}
        return status & 0x7f == 0 ? status >> 8 & 0xff : 1000 + status & 0x7f
    }

    static func path() throws -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0 else { throw Failure(operation: "readlink(/proc/self/exe)", errno: errno) }
        let executable = String(decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
        let folder = executable.split(separator: "/").dropLast().joined(separator: "/")
        let path = "/\(folder)/reachability-watch"
        guard access(path, X_OK) == 0 else { throw Failure(operation: "access(\(path))", errno: errno) }
        return path
    }
}

/// A pipe(7) that is closed with its owner.
final class Pipe: Sendable {
    let writeEnd: Int32
    private let readEnd: Int32
    private let isReadEndOpen = Mutex(true)
    private let isWriteEndOpen = Mutex(true)

    struct Failure: Error {
        var errno: Int32
    }

    init() throws {
        // pipe(2) could leak into children that other tests start before the descriptors are marked close-on-exec.
        let path = "/tmp/reachability-watch-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        guard mkfifo(path, 0o600) == 0 else { throw Failure(errno: errno) }
        defer { unlink(path) }
        readEnd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        writeEnd = open(path, O_WRONLY | O_CLOEXEC)
        guard readEnd >= 0, writeEnd >= 0, fcntl(readEnd, F_SETFL, 0) == 0 else { throw Failure(errno: errno) }
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
