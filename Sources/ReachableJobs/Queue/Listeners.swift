internal import Synchronization

/// The open streams of one kind of elements.
///
/// Streams yield, finish and are released without a lock. Safe to use from any thread.
final class Listeners<Element: Sendable>: Sendable {
    private struct State {
        var streams: [Int: AsyncStream<Element>.Continuation] = [:]
        var lastNumber = 0
        var isFinished = false
    }

    private let state = Mutex(State())

    deinit { finish() }

    var isEmpty: Bool { state.withLock { $0.streams.isEmpty } }

    /// Returns a new stream, which has ended if ``finish()`` was called.
    ///
    /// - Parameters:
    ///   - limit: The number of elements that a slow reader keeps; it loses the oldest beyond that.
    ///   - onEnd: Called after the stream has ended and is not counted any more.
    func stream(keeping limit: Int, onEnd: @escaping @Sendable () -> Void = {}) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(limit))
        let number = state.withLock { state -> Int? in
            guard !state.isFinished else { return nil }
            state.lastNumber += 1
            state.streams[state.lastNumber] = continuation
            return state.lastNumber
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            // Released here, not under the lock.
            _ = self?.state.withLock { $0.streams.removeValue(forKey: number) }
            onEnd()
        }
        return stream
    }

    func yield(_ element: Element) {
        for stream in state.withLock({ Array($0.streams.values) }) { stream.yield(element) }
    }

    func finish() {
        let streams = state.withLock { state in
            state.isFinished = true
            defer { state.streams = [:] }
            return Array(state.streams.values)
        }
        for stream in streams { stream.finish() }
    }
}
