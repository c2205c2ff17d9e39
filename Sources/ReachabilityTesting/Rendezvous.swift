internal import Synchronization

/// A value that tasks change, and that others wait for.
///
/// Safe to use from any thread.
package final class Rendezvous<Value: Sendable>: Sendable {
    private struct Witness: Sendable {
        let id: UInt64
        let isMet: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State: Sendable {
        var value: Value
        var witnesses: [Witness] = []
        var lastID: UInt64 = 0
    }

    private let state: Mutex<State>

    /// Makes one with an initial value.
    package init(_ value: Value) { state = Mutex(State(value: value)) }

    /// The present value.
    package var value: Value { state.withLock(\.value) }

    /// Changes the value, and resumes the tasks that waited for what it is now.
    package func change(_ body: (inout Value) -> Void) {
        let met = state.withLock { state in
            body(&state.value)
            let value = state.value
            defer { state.witnesses.removeAll { $0.isMet(value) } }
            return state.witnesses.filter { $0.isMet(value) }
        }
        for witness in met { witness.continuation.resume() }
    }

    /// Suspends until the value is as wanted; returns at once if it is.
    ///
    /// - Parameter isMet: Judges a value; called under a lock, so it must be pure.
    /// - Throws: `CancellationError` when the calling task is cancelled.
    package func wait(until isMet: @escaping @Sendable (Value) -> Bool) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isMetAlready = state.withLock { state in
                    if isMet(state.value) { return true }
                    state.witnesses.append(Witness(id: id, isMet: isMet, continuation: continuation))
                    return false
                }
                if isMetAlready { continuation.resume() }
                // The handler may have come before there was anything to cancel.
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    private func cancel(_ id: UInt64) {
        let witness = state.withLock { state in
            state.witnesses.firstIndex { $0.id == id }.map { state.witnesses.remove(at: $0) }
        }
        witness?.continuation.resume(throwing: CancellationError())
    }
}
