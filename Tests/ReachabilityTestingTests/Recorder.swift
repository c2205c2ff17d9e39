import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import Testing

/// Collects values from any thread.
final class Recorder<Value: Sendable>: Sendable {
    private let state = Mutex<[Value]>([])

    var values: [Value] { state.withLock { $0 } }

    func record(_ value: Value) { state.withLock { $0.append(value) } }
}

/// Runs `body` on a thread of its own and waits for its end.
func onAnotherThread(_ body: @escaping @Sendable () -> Void) {
    if let thread = startThread(body) { pthread_join(thread, nil) }
}

/// Runs `body` on a thread of its own.
func detachThread(_ body: @escaping @Sendable () -> Void) {
    if let thread = startThread(body) { pthread_detach(thread) }
}

private func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
    final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(body))
    let code = pthread_create(
        &thread, nil,
        { argument in
            guard let argument else { return nil }
            Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body()
            return nil
        }, box.toOpaque())
    #expect(code == 0)
    return code == 0 ? thread : nil
}

extension SimulatedNetwork {
    /// Runs the network with `deliver` while `body` is running, and waits for the end of the run.
    func running(
        _ deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?, _ body: (SimulatedNetwork) async throws -> Void
    ) async throws {
        let run = Task { try await self.run(deliver: deliver) }
        try await untilRunning()
        do {
            try await body(self)
        } catch {
            run.cancel()
            throw error
        }
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
    }
}
