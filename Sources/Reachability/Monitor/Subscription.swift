internal import DequeModule
internal import Synchronization

/// What one listener has not read yet, up to a limit, and its task if it waits: behind an `AsyncStream`, which calls ``next()``.
///
/// The buffer that `AsyncStream` has itself is compiled once for all kinds of elements, and telling a listener through it costs
/// several times as much as all else that is done for one. Safe to use from any thread.
package final class Subscription<Element: Sendable>: Sendable {
    private typealias Waiter = UnsafeContinuation<Element?, Never>

    private struct State {
        var buffer = Deque<Element>()
        /// As a rule one: the tasks that iterate.
        var waiters = Deque<Waiter>()
        var isFinished = false
    }

    private let limit: Int
    private let state = Mutex(State())

    /// Makes a subscription that keeps so many elements, at least one; the oldest make room for new ones.
    package init(limit: Int) { self.limit = max(1, limit) }

    package func yield(_ element: Element) {
        // What is dropped is released outside the lock.
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

    /// Takes no more elements; those that are there can still be read.
    package func finish() {
        let waiters = state.withLock { state in
            state.isFinished = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume(returning: nil) }
    }

    /// The next element, once there is one; `nil` when it is finished and all was read.
    package func next() async -> Element? {
        await withUnsafeContinuation { (waiter: Waiter) in
            // What can be answered at once; inside is `nil` for the end.
            let answer = state.withLock { state -> Element?? in
                if let element = state.buffer.popFirst() { return element }
                if state.isFinished { return .some(nil) }
                state.waiters.append(waiter)
                return nil
            }
            if let answer { waiter.resume(returning: answer) }
        }
    }

    /// The stream of its elements.
    ///
    /// - Parameter end: called once nobody can iterate any more: the stream was released, has ended, or its task was cancelled.
    package func stream(onEnd end: @escaping @Sendable () -> Void) -> AsyncStream<Element> {
        let lifetime = Lifetime(end)
        return AsyncStream(
            unfolding: {
                defer { withExtendedLifetime(lifetime) {} }
                return await self.next()
            }, onCancel: { self.finish() })
    }
}

/// Calls back when it is released.
private final class Lifetime: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
