import Foundation
import Glibc
import Synchronization

/// A child process and the lines of its output.
final class Child: Sendable {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    let pid: pid_t
    /// The lines of standard output, without their ends; finished when the child closes it.
    let lines: AsyncStream<String>
    /// The lines of standard error.
    let errors: AsyncStream<String>
    private let status: AsyncStream<Int32>
    private let hasEnded = Atomic(false)

    /// Starts a program from the PATH, optionally in a sandbox.
    ///
    /// - Parameters:
    ///   - joins: The reports of the groups that it joins.
    ///   - hasTerminal: `false` starts it in a new session without a controlling terminal.
    init(
        _ arguments: [String], input: String = "", in sandbox: Sandbox? = nil, reporting joins: JoinReports? = nil,
        hasTerminal: Bool = true
    ) throws {
        // Only the spawning: other threads must not inherit a restriction.
        let spawn: @Sendable () throws -> Started = { try Self.spawn(arguments, hasTerminal) }
        let started = try Self.spawning.withLock { _ in
            try sandbox.map { try $0.run(spawn) } ?? joins.map { try $0.run(spawn) } ?? spawn()
        }
        let pid = started.pid
        self.pid = pid
        lines = Self.lines(started.output)
        errors = Self.lines(started.error)
        let (status, statusIn) = AsyncStream.makeStream(of: Int32.self)
        self.status = status
        Self.thread {
            var code: Int32 = 0
            while waitpid(pid, &code, 0) < 0 && errno == EINTR {}
            // As in a shell: the exit code, or 128 plus the signal.
            statusIn.yield(code & 0x7f == 0 ? code >> 8 & 0xff : 128 + code & 0x7f)
            statusIn.finish()
        }
        Self.thread {
            var rest = Array(input.utf8)[...]
            while !rest.isEmpty {
                let written = rest.withUnsafeBytes { write(started.input, $0.baseAddress, $0.count) }
                guard written > 0 else { break }
                rest = rest.dropFirst(written)
            }
            close(started.input)
        }
    }

    /// Serialises spawning: between pipe(2) and FD_CLOEXEC another child would inherit the descriptors.
    private static let spawning = Mutex(())

    private struct Started: Sendable {
        var pid = pid_t()
        var input: Int32
        var output: Int32
        var error: Int32
    }

    // POSIX_SPAWN_SETSID of spawn.h, which Swift does not import.
    private static let newSession: Int16 = 0x80

    private static func spawn(_ arguments: [String], _ hasTerminal: Bool) throws -> Started {
        let (input, output, error) = (try closedOnExec(), try closedOnExec(), try closedOnExec())
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input.read, 0)
        posix_spawn_file_actions_adddup2(&actions, output.write, 1)
        posix_spawn_file_actions_adddup2(&actions, error.write, 2)
        for descriptor in openDescriptors { posix_spawn_file_actions_addclose(&actions, descriptor) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This process may have inherited ignored signals, for example as a background command of a script.
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE] { sigaddset(&defaults, signal) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF) | (hasTerminal ? 0 : newSession))
        let argv = arguments.map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var started = Started(input: input.write, output: output.read, error: error.read)
        let result = posix_spawnp(&started.pid, arguments[0], &actions, &attributes, argv, environ)
        for descriptor in [input.read, output.write, error.write] { close(descriptor) }
        guard result == 0 else {
            for descriptor in [input.write, output.read, error.read] { close(descriptor) }
            throw Failure(description: "\(arguments): \(String(cString: strerror(result)))")
        }
        return started
    }

    /// The descriptors that a child has no use for.
    ///
    /// Those of `URLSession` are not closed on exec: hundreds of other tests' sockets would use up a child's own limit. One that is
    /// closed in the meantime does no harm (__spawni_child, sysdeps/unix/sysv/linux/spawni.c of glibc).
    private static var openDescriptors: [Int32] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { Int32($0) }.filter { $0 > STDERR_FILENO }
    }

    private static func closedOnExec() throws -> (read: Int32, write: Int32) {
        var ends = [Int32](repeating: 0, count: 2)
        guard pipe(&ends) == 0 else { throw Failure(description: "pipe: \(String(cString: strerror(errno)))") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// Starts a program with a monitor; returns once it receives the kernel's events.
    static func listening(_ arguments: [String]) async throws -> Child {
        let joins = JoinReports()
        let child = try Child(arguments, reporting: joins)
        try await joins.untilComplete()
        return child
    }

    deinit { if !hasEnded.load(ordering: .acquiring) { kill(pid, SIGKILL) } }

    func signal(_ number: Int32) { kill(pid, number) }

    /// Waits for the end and returns the exit code as a shell does.
    func exitCode() async -> Int32 {
        for await code in status {
            hasEnded.store(true, ordering: .releasing)
            return code
        }
        return -1
    }

    /// Runs a program to its end and returns its output.
    @discardableResult
    static func run(
        _ arguments: [String], input: String = "", in sandbox: Sandbox? = nil, allowFailure: Bool = false
    ) async throws -> (code: Int32, output: String) {
        let child = try Child(arguments, input: input, in: sandbox)
        var output: [String] = []
        for await line in child.lines { output.append(line) }
        var errors: [String] = []
        for await line in child.errors { errors.append(line) }
        let code = await child.exitCode()
        guard code == 0 || allowFailure else {
            throw Failure(
                description: "\(arguments.joined(separator: " ")): exit \(code): \(errors.joined(separator: "; ")) \(input)")
        }
        return (code, (output + errors).joined(separator: "\n"))
    }

    private static func lines(_ descriptor: Int32) -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        thread {
            var pending: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65536)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { break }
                pending += buffer[..<count]
                while let end = pending.firstIndex(of: 10) {
                    continuation.yield(String(decoding: pending[..<end], as: UTF8.self))
                    pending.removeSubrange(...end)
                }
            }
            if !pending.isEmpty { continuation.yield(String(decoding: pending, as: UTF8.self)) }
            close(descriptor)
            continuation.finish()
        }
        return stream
    }

    /// Runs blocking code on a new thread: the pool's few threads are for tests.
    static func thread(_ body: @escaping @Sendable () -> Void) {
        final class Box: Sendable {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
                return nil
            }, Unmanaged.passRetained(Box(body)).toOpaque())
        pthread_detach(thread)
    }
}
