import CommandKit
import Dispatch
import Glibc

/// The lines that hooks write, with limits: a hook that writes without end does not fill the journal.
///
/// Pure.
struct HookLines {
    /// The longest line in bytes; longer ones are cut.
    static let longestLine = 1000
    /// The number of lines of one hook; later ones are left out and counted.
    static let mostLines = 100

    private var subject = ""
    private var line: [UInt8] = []
    private var isCut = false
    private var count = 0

    /// Begins the output of a hook; returns the end of what came before it.
    mutating func begin(_ name: String) -> [String] {
        let rest = end()
        subject = "hook \(quotation(name))"
        return rest
    }

    /// Takes output; returns the lines that are complete.
    mutating func take(_ bytes: some Sequence<UInt8>) -> [String] {
        var lines: [String] = []
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                lines += endLine()
            } else if line.count < Self.longestLine {
                line.append(byte)
            } else {
                isCut = true
            }
        }
        return lines
    }

    /// Ends the output of a hook; later output is that of processes that it left in the background.
    mutating func end() -> [String] {
        var lines = endLine()
        if count > Self.mostLines {
            let more = count - Self.mostLines
            lines.append("\(subject): \(more) more \(more == 1 ? "line" : "lines") left out; next: write long output to a file")
        }
        (subject, count) = ("a process of earlier hooks", 0)
        return lines
    }

    private mutating func endLine() -> [String] {
        defer { (line, isCut) = ([], false) }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        guard !line.isEmpty else { return [] }
        count += 1
        guard count <= Self.mostLines else { return [] }
        guard isCut else { return ["\(subject): \(ForeignText(line).journal)"] }
        // A character of UTF-8 that is cut leaves up to three bytes.
        let whole = (0...3).map { [line] in line.dropLast($0) }.first { String(validating: $0, as: UTF8.self) != nil }
        let text = whole.map(Array.init) ?? line
        return ["\(subject): \(ForeignText(text).journal)…"]
    }
}

/// The pipe to which hooks write, and the lines that come out of it.
///
/// One pipe for all hooks: processes that a hook leaves in the background may keep it open.
// Sendable: the lines are used on `queue` only, and the source is not used after `init`.
final class HookOutput: @unchecked Sendable {
    /// The capacity of a pipe (pipe(7)).
    private static let capacity = 65_536

    /// The end to write to.
    let descriptor: Int32
    private let readEnd: Int32
    private let queue = DispatchQueue(label: "hook output")
    private let source: any DispatchSourceRead
    private let say: @Sendable (String) -> Void
    private var lines = HookLines()

    /// Opens the pipe; never closed.
    ///
    /// - Parameter say: Takes the lines.
    init(say: @escaping @Sendable (String) -> Void) throws(CommandFailure) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw CommandFailure(
                .unknown, "--hooks has no pipe: \(errorText(errno)); next: raise the limit of files, e.g. `ulimit -n 256`")
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // Only this end: writing blocks.
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        (readEnd, descriptor, self.say) = (ends[0], ends[1], say)
        source = DispatchSource.makeReadSource(fileDescriptor: readEnd, queue: queue)
        source.setEventHandler { [weak self] in self?.drain() }
        source.activate()
    }

    /// Runs a hook, whose lines get its name.
    func run(_ name: String, _ body: () async throws(ChildFailure) -> Void) async throws(ChildFailure) {
        await change { $0.begin(name) }
        do throws(ChildFailure) {
            try await body()
        } catch {
            await change { $0.end() }
            throw error
        }
        await change { $0.end() }
    }

    /// Takes what was written before, then changes the lines.
    private func change(_ body: @escaping @Sendable (inout HookLines) -> [String]) async {
        await withCheckedContinuation { continuation in
            queue.async {
                self.drain()
                body(&self.lines).forEach(self.say)
                continuation.resume()
            }
        }
    }

    /// Takes what is in the pipe, but not what a process in the background goes on to write.
    private func drain() {
        var buffer = [UInt8](repeating: 0, count: Self.capacity)
        let count = read(readEnd, &buffer, buffer.count)
        if count > 0 { lines.take(buffer[..<count]).forEach(say) }
    }
}
