import CommandKit
import FoundationEssentials
import Glibc
import Reachability
import Synchronization

/// One attempt as the worker sees it: a process that runs the command and supervises all its descendants.
///
/// A process for each attempt, because only a subreaper knows which orphans belong to which command. The two are connected by a
/// socket: the worker sends the command, the process answers with the failure, and the end of either side ends the attempt. The
/// process inherits the locks of the worker's store, so that a killed worker counts as alive until its commands have ended.
enum AttemptProcess {
    /// The descriptors of the process.
    static let (socket, lock): (Int32, Int32) = (3, 4)

    /// The worker's end of the socket; closed only after nothing uses it.
    private final class Connection: Sendable {
        private let descriptor: Mutex<Int32>

        init(_ descriptor: Int32) { self.descriptor = Mutex(descriptor) }

        /// Tells the process to end the command.
        func hangUp() { descriptor.withLock { if $0 >= 0 { _ = shutdown($0, Int32(SHUT_WR)) } } }

        func close() {
            descriptor.withLock { descriptor in
                Glibc.close(descriptor)
                descriptor = -1
            }
        }
    }

    /// Runs a command; cancellation ends it and all its descendants with SIGTERM, and SIGKILL five seconds later.
    ///
    /// - Parameters:
    ///   - command: The command.
    ///   - output: The descriptor of standard output and error.
    ///   - lock: The descriptor whose locks prove that the worker lives.
    static func run(_ command: QueuedCommand, output: Int32, lock: Int32?) async throws {
        let message = try JSONEncoder().encode(command)
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw ChildFailure(cause: .notStarted("a socket", errno))
        }
        let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
        guard nothing >= 0 else {
            let number = errno
            for end in ends { Glibc.close(end) }
            throw ChildFailure(cause: .notStarted("/dev/null", number))
        }
        var start = ProcessStart(
            files: [Array("/proc/self/exe".utf8)], words: ["reachability-watch", AttemptCommand.name].map { Array($0.utf8) })
        start.descriptors = [nothing, output, output, ends[1], lock ?? nothing]
        let started = start.spawn(hasOwnGroup: true)
        Glibc.close(nothing)
        Glibc.close(ends[1])
        let pid: pid_t
        switch started {
        case .success(let number): pid = number
        case .failure(let failure):
            Glibc.close(ends[0])
            throw ChildFailure(cause: .notStarted("the process of an attempt", failure.number))
        }
        let connection = Connection(ends[0])
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let talk: @Sendable () -> Void = { [descriptor = ends[0]] in
                    let failure = converse(descriptor, pid, message)
                    connection.close()
                    continuation.resume(returning: failure)
                }
                // Without threads the attempt ends as one that could not start.
                if SystemThread.start(talk) != 0 {
                    connection.hangUp()
                    talk()
                }
            }
        } onCancel: {
            connection.hangUp()
        }
        guard var failure else { return }
        if Task.isCancelled { failure.interruption = .timeLimit }
        throw failure
    }

    /// Sends the command, waits for the answer and for the end of the process; returns the failure, `nil` after a success.
    private static func converse(_ socket: Int32, _ pid: pid_t, _ message: Data) -> ChildFailure? {
        let isSent = Pipe.write(Pipe.frame(message), to: socket)
        let answer = isSent ? Pipe.readAll(from: socket) : []
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        if let answer = try? JSONDecoder().decode(AttemptAnswer.self, from: Data(answer)) { return answer.failure }
        // Killed from outside, or cancelled before it could answer.
        let signal = status & 0x7f
        return ChildFailure(cause: signal == 0 ? .exited(status >> 8 & 0xff) : .signaled(signal))
    }
}

/// The answer of the process of an attempt.
struct AttemptAnswer: Codable {
    /// The failure; `nil` after a success.
    var failure: ChildFailure?
}

/// Whole messages over a stream socket.
enum Pipe {
    /// The message behind its length in eight bytes.
    static func frame(_ message: Data) -> [UInt8] {
        withUnsafeBytes(of: UInt64(message.count).littleEndian, Array.init) + Array(message)
    }

    /// Writes all bytes; returns false if the other side is gone.
    static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        (try? DescriptorOutput(descriptor: descriptor).write(bytes: bytes[...])) != nil
    }

    /// Reads a message with its length; `nil` if the other side is gone before its end.
    static func readFrame(from descriptor: Int32, atMost limit: Int) -> [UInt8]? {
        guard let head = read(8, from: descriptor) else { return nil }
        let length = head.reversed().reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        return length <= UInt64(limit) ? read(Int(length), from: descriptor) : nil
    }

    /// Reads to the end of the stream.
    static func readAll(from descriptor: Int32) -> [UInt8] {
        var bytes: [UInt8] = []
        while let more = readSome(4096, from: descriptor) { bytes += more }
        return bytes
    }

    private static func read(_ count: Int, from descriptor: Int32) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let more = readSome(count - bytes.count, from: descriptor) else { return nil }
            bytes += more
        }
        return bytes
    }

    private static func readSome(_ count: Int, from descriptor: Int32) -> ArraySlice<UInt8>? {
        var buffer = [UInt8](repeating: 0, count: count)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count > 0 { return buffer[..<count] }
            guard count < 0, errno == EINTR else { return nil }
        }
    }
}
