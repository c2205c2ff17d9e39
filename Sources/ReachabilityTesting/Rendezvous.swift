internal import Reachability
internal import Synchronization

/// A value that tasks change and other tasks wait for.
///
/// Safe to use from any thread.
package final class Rendezvous<Value: Sendable>: Sendable {
    private struct Waiter: Sendable {
        let id: UInt64
        let isMet: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State: Sendable {
        var value: Value
        var waiters: [Waiter] = []
        var lastID: UInt64 = 0
    }

    private let state: Mutex<State>

    /// Makes a rendezvous with an initial value.
    package init(_ value: Value) { state = Mutex(State(value: value)) }

    /// The present value.
    package var value: Value { state.withLock(\.value) }

    /// Changes the value and resumes the tasks that waited for the new one.
    package func change(_ body: (inout Value) -> Void) {
        let met = state.withLock { state in
            body(&state.value)
            let value = state.value
            defer { state.waiters.removeAll { $0.isMet(value) } }
            return state.waiters.filter { $0.isMet(value) }
        }
        for waiter in met { waiter.continuation.resume() }
    }

    /// Suspends until the value meets a condition; returns at once if it does.
    ///
    /// - Parameter isMet: The condition. It is called under a lock and must be pure.
    /// - Throws: `CancellationError` when the calling task is cancelled.
    package func wait(until isMet: @escaping @Sendable (Value) -> Bool) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        try await withCancellableContinuation { continuation in
            let isMetAlready = state.withLock { state in
                if isMet(state.value) { return true }
                state.waiters.append(Waiter(id: id, isMet: isMet, continuation: continuation))
                return false
            }
            if isMetAlready { continuation.resume() }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }
}

/// Suspends until the calling task is cancelled.
package func untilCancelled() async {
    // This stream has no elements and no end: only cancellation ends the iteration.
    for await _ in AsyncStream<Never>.makeStream().stream {}
}
