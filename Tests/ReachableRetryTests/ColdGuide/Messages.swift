import ReachableRetry

func show(
    _ messages: some AsyncSequence<String, any Error> & Sendable, on bus: RetryBus, _ screen: (String) -> Void
) async throws {
    for try await message in messages.retry(on: bus, options: JobOptions(destination: "chat.example.org"), resetsAfterElement: true)
    {
        screen(message)
    }
}
