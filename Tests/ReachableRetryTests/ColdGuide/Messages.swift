import ReachableRetry

/// Connects, and connects again after each failure.
func show(
    _ screen: (String) -> Void, on bus: RetryBus,
    connect: @escaping @Sendable () async throws -> AsyncThrowingStream<String, any Error>
) async throws {
    let chat = JobOptions(destination: "chat.example.org")
    for try await message in bus.sequence(options: chat, resetsAfterElement: true, make: { _ in try await connect() }) {
        screen(message)
    }
}
