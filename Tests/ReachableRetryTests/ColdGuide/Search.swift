import ReachableRetry

/// The results for the latest query: each keystroke ends the previous search.
func results(
    for queries: some AsyncSequence<String, Never> & Sendable, on bus: RetryBus,
    find: @escaping @Sendable (String) async throws -> [String]
) -> AsyncStream<[String]> {
    AsyncStream { results in
        let typing = Task {
            var search: Task<Void, Never>?
            for await query in queries {
                search?.cancel()
                let job = bus.job(options: JobOptions(priority: .interactive)) { _ in try await find(query) }
                search = Task {
                    guard let found = try? await job.value, !Task.isCancelled else { return }
                    results.yield(found)
                }
            }
            if Task.isCancelled { search?.cancel() }
            await search?.value
            results.finish()
        }
        results.onTermination = { _ in typing.cancel() }
    }
}
