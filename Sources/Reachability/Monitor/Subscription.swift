internal import DequeModule
internal import Synchronization

/// The bounded buffer of one listener, and its waiting task, behind an `AsyncStream` that calls ``next()``.
///
/// The buffer of `AsyncStream` itself is not specialized: a delivery through it costs several times as much as all other work for
/// a listener. Safe to use from any thread.
package final class Subscription<Element: Sendable>: Sendable {
    /// Unsafe: the row `AsyncStream` of `bench latency` is at its goal, not below it.
    private typealias Waiter = UnsafeContinuation<Element?, Never>

    private struct State {
        var buffer = Deque<Element>()
        /// The iterating tasks, normally one.
        var waiters = Deque<Waiter>()
        var isFinished = false
    }

    private let limit: Int
    private let state = Mutex(State())

    /// Makes a subscription with a buffer.
    ///
    /// - Parameter limit: the number of buffered elements, at least 1; the oldest are dropped first.
    package init(limit: Int) { self.limit = max(1, limit) }

    package func yield(_ element: Element) {
        // The dropped element is released outside the lock.
        let (waiter, dropped) = state.withLock { state -> (Waiter?, Element?) in
            if state.isFinished { return (nil, nil) }
            if let waiter = state.waiters.popFirst() { return (waiter, nil) }
            let dropped = state.buffer.count < limit ? nil : state.buffer.popFirst()
            state.buffer.append(element)
            return (nil, dropped)
        }
        withExtendedLifetime(dropped) {}
        waiter?.resume(returning: element)
    }

    /// Ends the subscription; buffered elements can still be read.
    package func finish() {
        let waiters = state.withLock { state in
            state.isFinished = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume(returning: nil) }
    }

    /// Waits for the next element; returns `nil` after the last one.
    package func next() async -> Element? {
        await withUnsafeContinuation { (waiter: Waiter) in
            // The immediate answer; `.some(nil)` for the end.
            let answer = state.withLock { state -> Element?? in
                if let element = state.buffer.popFirst() { return element }
                if state.isFinished { return .some(nil) }
                state.waiters.append(waiter)
                return nil
            }
            if let answer { waiter.resume(returning: answer) }
        }
    }

    /// Returns the stream of the elements.
    ///
    /// - Parameter end: called when the stream is released, ends, or its task is cancelled.
    package func stream(onEnd end: @escaping @Sendable () -> Void) -> AsyncStream<Element> {
        let lifetime = Lifetime(end)
        return AsyncStream(
            unfolding: {
                defer { withExtendedLifetime(lifetime) {} }
                return await self.next()
            }, onCancel: { self.finish() })
    }
}

/// A callback for the moment of release.
private final class Lifetime: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
