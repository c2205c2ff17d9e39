import ReachableRetry

func upload(_ photos: [Photo], to server: some PhotoServer, over bus: RetryBus) async throws {
    for photo in photos {
        try await bus.retry { _ in
            try await server.store(photo)
        }
    }
}
