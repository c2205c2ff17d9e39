package import Foundation

/// Returns the path of a program that is built beside the tests.
package func builtProgram(_ name: String) -> String {
    let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    return URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent(name).path
}

/// Starts a program from the PATH; returns its id.
///
/// - Parameters:
///   - environment: Its environment, in lines `NAME=VALUE`; `nil` for that of this process.
///   - hasTerminal: `false` starts it in a new session without a controlling terminal.
///   - connect: Adds what connects its descriptors.
package func spawn(
    _ words: [String], environment: [String]? = nil, hasTerminal: Bool = true,
    connect: (inout posix_spawn_file_actions_t) -> Void = { _ in }
) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    connect(&actions)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // This process may have inherited ignored signals, from nohup(1), an interpreter, or as a background command of a script.
    var defaults = sigset_t()
    sigemptyset(&defaults)
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ] { sigaddset(&defaults, signal) }
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    // This thread may block signals, and the child inherits that. It unblocks those that it handles itself.
    var mask = sigset_t()
    pthread_sigmask(SIG_BLOCK, nil, &mask)
    sigdelset(&mask, SIGHUP)
    posix_spawnattr_setsigmask(&attributes, &mask)
    // POSIX_SPAWN_SETSID of spawn.h, which Swift does not import.
    let newSession: Int16 = hasTerminal ? 0 : 0x80
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK) | newSession)
    let (arguments, variables) = (words.map { strdup($0) } + [nil], (environment ?? []).map { strdup($0) } + [nil])
    defer { for text in arguments + variables { free(text) } }
    var pid = pid_t()
    let error =
        environment == nil
        ? posix_spawnp(&pid, words[0], &actions, &attributes, arguments, environ)
        : posix_spawnp(&pid, words[0], &actions, &attributes, arguments, variables)
    guard error == 0 else { throw SystemFailure("posix_spawn(\(words[0]))", errno: error) }
    return pid
}

/// Waits for the end of a child; returns its exit code, or a number and the signal that killed it.
package func awaitEnd(of pid: pid_t, signalsFrom first: Int32 = 1000) -> Int32 {
    var status: Int32 = 0
    while waitpid(pid, &status, 0) == -1, errno == EINTR {}
    return status & 0x7f == 0 ? status >> 8 & 0xff : first + status & 0x7f
}

/// The end of a program.
package struct Outcome {
    /// The exit code, or 1000 + the signal that killed it.
    package var code: Int32
    package var output: String
    package var errors: String

    package init(code: Int32, output: String, errors: String) {
        (self.code, self.output, self.errors) = (code, output, errors)
    }

    package var lines: [String] { output.split(separator: "\n").map(String.init) }
}

/// Programs of tests. What waits for them blocks: use it in a suite with the trait `blocking`, or on a `ThreadPerJobExecutor`.
extension Process {
    /// Makes a process of a program from the PATH, without input and output.
    package convenience init(_ words: [String], in folder: String? = nil, variables: [String: String] = [:]) {
        self.init()
        executableURL = URL(fileURLWithPath: "/usr/bin/env")
        arguments = words
        if let folder { currentDirectoryURL = URL(fileURLWithPath: folder) }
        environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
        (standardInput, standardOutput) = (FileHandle.nullDevice, FileHandle.nullDevice)
    }

    /// Runs it to its end.
    ///
    /// - Parameter input: What it reads; this and what it writes fit into a pipe.
    package func outcome(input text: String = "") throws -> Outcome {
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        (standardOutput, standardError) = (output, errors)
        if !text.isEmpty { standardInput = input }
        try run()
        if !text.isEmpty { try input.fileHandleForWriting.write(contentsOf: Data(text.utf8)) }
        try input.fileHandleForWriting.close()
        let texts = try [output, errors].map { String(decoding: try $0.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self) }
        return Outcome(code: end(), output: texts[0], errors: texts[1])
    }

    /// Runs it to its end, which must be in order; returns its output.
    @discardableResult
    package func succeed(input: String = "") throws -> String {
        let outcome = try outcome(input: input)
        guard outcome.code == 0 else { throw SystemFailure("\(arguments ?? []): \(outcome.errors)", errno: outcome.code) }
        return outcome.output
    }

    /// Waits for its end; returns the exit code, or 1000 + the signal that killed it.
    @discardableResult
    package func end() -> Int32 {
        waitUntilExit()
        return terminationReason == .exit ? terminationStatus : 1000 + terminationStatus
    }

    /// Kills it, and waits for its end.
    package func kill() {
        Foundation.kill(processIdentifier, SIGKILL)
        waitUntilExit()
    }

    /// Stops it with SIGSTOP, and returns when all its threads have stopped.
    package func freeze() {
        Foundation.kill(processIdentifier, SIGSTOP)
        var info = siginfo_t()
        // WNOWAIT leaves the report to Foundation, which waits for the end of the process.
        waitid(P_PID, id_t(processIdentifier), &info, WSTOPPED | WNOWAIT)
    }

    /// Lets it go on.
    package func thaw() { Foundation.kill(processIdentifier, SIGCONT) }
}

extension FileHandle {
    /// Returns the next line; `nil` at the end.
    package func readLine() -> String? {
        var line: [UInt8] = []
        while let byte = try? read(upToCount: 1)?.first {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }
}
