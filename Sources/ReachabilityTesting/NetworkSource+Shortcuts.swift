package import Reachability

extension NetworkSource {
    /// Runs the source in a new task, without a monitor; returns its batches and the task.
    package func deliveries(pause: Duration? = nil) -> (batches: AsyncStream<NetworkEventBatch>, running: Task<Void, any Error>) {
        let (batches, continuation) = AsyncStream.makeStream(of: NetworkEventBatch.self)
        let running = Task {
            try await run { batch in
                continuation.yield(batch)
                return pause
            }
        }
        return (batches, running)
    }

    /// Looks up one route.
    ///
    /// - Throws: The error of the source.
    package func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        guard let result = routes(to: [query]).first else { throw ReachabilityError(.requestFailed, operation: "routes(to:)") }
        return try result.get()
    }
}
