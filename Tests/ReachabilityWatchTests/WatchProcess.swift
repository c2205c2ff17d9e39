import Glibc

/// The built command as a child process.
///
/// It lies next to the test bundle.
struct WatchProcess {
    let pid: pid_t
    let output: Pipe
    let errors: Pipe

    struct Failure: Error {
        var operation: String
        var errno: Int32
    }

    /// Starts it.
    ///
    /// - Parameters:
    ///   - arguments: the words behind its name.
    ///   - outputPath: a file for its standard output instead of the pipe.
    ///   - shell: commands of sh(1) to run before, in the same process.
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
        // Of the environment it gets only what a sanitizer may need.
        let names: [String] = ["LD_PRELOAD", "TSAN_OPTIONS"]
        let kept = names.compactMap { (name: String) -> String? in getenv(name).map { "\(name)=\(String(cString: $0))" } }
        let settings = ["LC_ALL=C.UTF-8"] + kept
        var environment = settings.map { strdup($0) } + [nil]
        defer { for variable in environment { free(variable) } }
        // This process may have inherited some as ignored, from nohup(1) or from an interpreter.
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ] { sigaddset(&defaults, signal) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        var pid = pid_t()
        let error = posix_spawn(&pid, prefix.first ?? path, &actions, &attributes, &words, &environment)
        guard error == 0 else { throw Failure(operation: "posix_spawn(\(path))", errno: error) }
        self.pid = pid
        output.closeWriteEnd()
        errors.closeWriteEnd()
    }

    /// Waits for its end: the exit code, or 1000 + the signal that killed it.
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
