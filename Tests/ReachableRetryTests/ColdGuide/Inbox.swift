import ReachableRetry

func keepInboxFresh(on bus: RetryBus, _ fetch: @escaping @Sendable () async throws -> Void) async throws {
    try await bus.job { _ in try await fetch() }.repeating(every: .seconds(60)).run()
}
