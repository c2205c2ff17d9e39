import ReachableRetry

actor Album {
    private(set) var stored: [Photo] = []
    private(set) var progress = ""

    func add(_ photo: Photo, to server: some PhotoServer, over bus: RetryBus) async throws {
        try await bus.retry(.upload, options: JobOptions(id: JobID(photo.name))) { attempt in
            progress = "\(photo.name), attempt \(attempt.number)"  // on the album's actor: no await
            try await server.store(photo)
        }
        stored.append(photo)
    }
}
