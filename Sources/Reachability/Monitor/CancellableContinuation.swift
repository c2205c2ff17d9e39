/// Suspends the task with a continuation that its cancellation can resume.
///
/// For waits that a cancellation ends at once. Work that has to end by itself after a cancellation, such as a command or an
/// attempt, needs a cancellation handler of its own.
///
/// - Parameters:
///   - register: Stores the continuation, or resumes it at once.
///   - cancel: Removes the stored continuation, if it is still there, and resumes it with `CancellationError`. May be called
///     twice, and before `register`.
package func withCancellableContinuation<Value: Sendable>(
    _ register: (CheckedContinuation<Value, any Error>) -> Void, onCancel cancel: @Sendable () -> Void
) async throws -> Value {
    try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { continuation in
            register(continuation)
            // The handler may have run before there was anything to cancel. It runs after the task's flag is set, so that one
            // of the two calls finds the continuation.
            if Task.isCancelled { cancel() }
        }
    } onCancel: {
        cancel()
    }
}
