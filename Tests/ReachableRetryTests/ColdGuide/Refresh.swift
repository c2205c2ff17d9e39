import Reachability
import ReachableRetry

func headlines(
    of feed: @escaping @Sendable () async throws -> [String], on bus: RetryBus, when isLoggedIn: Condition
) -> Job<[String]> {
    bus.job(options: JobOptions(destination: "feed.example.org")) { _ in try await feed() }
        .onlyWhen(isLoggedIn)
        .onEvent { event in
            if case .attemptFailed(let failure) = event { print("the feed: \(failure.error)") }
        }
}
