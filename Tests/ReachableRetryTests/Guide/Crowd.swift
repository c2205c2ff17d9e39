import Reachability
import ReachableRetry

extension RetryBus {
    static func considerate(over monitor: ReachabilityMonitor) -> RetryBus {
        var configuration = Configuration()
        configuration.releasePolicy = .gated(maxInFlight: 8, spread: .seconds(60))
        configuration.maxConcurrent = 100
        return RetryBus(monitor, configuration: configuration)
    }
}

func backUp(_ photos: [Photo], to server: some PhotoServer, over bus: RetryBus) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        for photo in photos {
            group.addTask {
                let id = JobID(photo.name)
                try await bus.retry(.upload, options: JobOptions(destination: "photos.example", priority: .bulk), joining: id) {
                    _ in
                    try await server.store(photo)
                }
            }
        }
        try await group.waitForAll()
    }
}
