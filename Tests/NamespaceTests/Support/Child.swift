import Foundation
import Glibc
import Synchronization
import TestSupport

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
        detachThread {
            // As in a shell.
            statusIn.yield(awaitEnd(of: pid, signalsFrom: 128))
            statusIn.finish()
        }
        detachThread {
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
        var pid: pid_t
        var input: Int32
        var output: Int32
        var error: Int32
    }

    private static func spawn(_ arguments: [String], _ hasTerminal: Bool) throws -> Started {
        let (input, output, errors) = (try closedOnExec(), try closedOnExec(), try closedOnExec())
        defer { for descriptor in [input.read, output.write, errors.write] { close(descriptor) } }
        do {
            let pid = try TestSupport.spawn(arguments, hasTerminal: hasTerminal) { actions in
                posix_spawn_file_actions_adddup2(&actions, input.read, 0)
                posix_spawn_file_actions_adddup2(&actions, output.write, 1)
                posix_spawn_file_actions_adddup2(&actions, errors.write, 2)
                for descriptor in openDescriptors { posix_spawn_file_actions_addclose(&actions, descriptor) }
            }
            return Started(pid: pid, input: input.write, output: output.read, error: errors.read)
        } catch {
            for descriptor in [input.write, output.read, errors.read] { close(descriptor) }
            throw error
        }
    }

    /// The descriptors that a child has no use for.
    ///
    /// Those of `URLSession` are not closed on exec: hundreds of other tests' sockets would use up a child's own limit. One that is
    /// closed in the meantime does no harm (__spawni_child, sysdeps/unix/sysv/linux/spawni.c of glibc).
    private static var openDescriptors: [Int32] { (try? openFiles().keys.filter { $0 > STDERR_FILENO }) ?? [] }

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
        detachThread {
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
}
