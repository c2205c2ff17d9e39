import Synchronization

@testable import reachability_watch

/// Collects lines; a test can wait for each, or do something while it is being written.
final class LineCollector: LineOutput {
    private let collected = Mutex<[String]>([])
    private let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    private let onWrite: @Sendable (Int) throws(OutputFailure) -> Void

    /// - Parameter onWrite: called with the number of lines before, for each line.
    init(onWrite: @escaping @Sendable (Int) throws(OutputFailure) -> Void = { _ in }) { self.onWrite = onWrite }

    /// What was written.
    var lines: [String] { collected.withLock(\.self) }

    func write(_ line: String) throws(OutputFailure) {
        try onWrite(lines.count)
        collected.withLock { $0.append(line) }
        continuation.yield(line)
    }

    /// Waits for the next line that was not waited for before.
    func next() async -> String {
        for await line in stream { return line }
        return ""
    }
}
