import ReachableRetry

func send(
    _ messages: [String], over bus: RetryBus, by deliver: @escaping @Sendable (String) async throws -> Void
) throws(RetryError) {
    for message in messages {
        try bus.job(options: JobOptions(priority: .bulk)) { _ in try await deliver(message) }.submit(detached: true)
    }
}
