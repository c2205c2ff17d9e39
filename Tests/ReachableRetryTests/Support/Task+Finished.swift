extension Task where Failure == any Error {
    /// The task's value.
    ///
    /// Cancels the task with its caller: a test whose time is over ends, even if what it waits for does not come.
    func finished() async throws -> Success {
        try await withTaskCancellationHandler {
            try await value
        } onCancel: {
            cancel()
        }
    }
}
