package import Reachability

extension NetworkSource {
    /// Runs the source in a task of its own, without a monitor, and passes on what it delivers.
    package func deliveries() -> (batches: AsyncStream<NetworkEventBatch>, running: Task<Void, any Error>) {
        let (batches, continuation) = AsyncStream.makeStream(of: NetworkEventBatch.self)
        let running = Task {
            try await run { batch in
                continuation.yield(batch)
                return nil
            }
        }
        return (batches, running)
    }
}
