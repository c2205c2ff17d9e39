import Reachability

/// Looks again and again until something holds: whenever the kernel announces anything, and every few milliseconds.
final class Pulse: Sendable {
    private static let interval: Duration = .milliseconds(5)

    /// What the kernel announced.
    let log = AnnouncementLog()
    private let source: KernelNetwork
    private let beats: AsyncStream<Void>
    private let beat: AsyncStream<Void>.Continuation

    init(_ source: KernelNetwork) {
        self.source = source
        (beats, beat) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Beats while the body is running.
    func running(_ body: () async throws -> Void) async throws {
        let run = Task { [source, beat, log] in
            try await source.run { batch in
                log.note(batch)
                beat.yield()
                return Self.interval
            }
        }
        defer { run.cancel() }
        // From the first beat on nothing that is announced is missed.
        for await _ in beats { break }
        try await body()
    }

    /// Waits until there is no difference; throws the last one if there still is after the time that the kernel may take.
    func settle(within patience: Duration = TwinNetworks.patience, _ difference: () async throws -> String?) async throws {
        let clock = ContinuousClock()
        let deadline = clock.now + patience
        guard var last = try await difference() else { return }
        for await _ in beats {
            guard let next = try await difference() else { return }
            last = next
            guard clock.now < deadline else { break }
        }
        throw TwinNetworks.Divergence(description: last)
    }
}
