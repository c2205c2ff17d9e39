/// Holds up an operation until a test has seen it there and lets it go.
final class Gate: Sendable {
    private let reached = AsyncStream.makeStream(of: Void.self)
    private let opened = AsyncStream.makeStream(of: Void.self)

    /// Suspends until the gate is open, or the task is cancelled.
    func pass() async {
        reached.continuation.yield()
        for await _ in opened.stream {}
    }

    /// Suspends until somebody stands at the gate.
    func untilReached() async {
        for await _ in reached.stream { break }
    }

    func open() { opened.continuation.finish() }
}
