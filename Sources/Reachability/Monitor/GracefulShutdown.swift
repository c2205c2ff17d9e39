#if ServiceLifecycle
internal import ServiceLifecycle

/// Suspends until the task is cancelled or shut down gracefully.
///
/// The library's own function resumes from a task that it starts on the default pool. A pool without a free thread would delay
/// the end, and a test world could not wait for it.
package func untilShutdown() async {
    let (shutdown, continuation) = AsyncStream.makeStream(of: Never.self)
    await withGracefulShutdownHandler {
        for await _ in shutdown {}
    } onGracefulShutdown: {
        continuation.finish()
    }
}
#endif

/// Runs a body, and cancels it when the task is cancelled or, with the trait `ServiceLifecycle`, shut down gracefully.
package func cancelledByShutdown<Failure: Error>(
    _ body: @escaping @Sendable () async throws(Failure) -> Void
) async throws(Failure) {
    #if ServiceLifecycle
    let result = await withTaskGroup(of: Result<Void, Failure>?.self) { group in
        group.addTask {
            await untilShutdown()
            return nil
        }
        group.addTask {
            do throws(Failure) {
                try await body()
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        var result = Result<Void, Failure>.success(())
        for await end in group {
            if let end { result = end }
            group.cancelAll()
        }
        return result
    }
    try result.get()
    #else
    try await body()
    #endif
}
