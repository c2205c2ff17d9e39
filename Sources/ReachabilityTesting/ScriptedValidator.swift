public import Reachability
internal import Synchronization

/// A validator whose answers a test scripts.
///
/// ```swift
/// let validator = ScriptedValidator()
/// var configuration = ReachabilityMonitor.Configuration()
/// configuration.validator = validator
/// let monitor = ReachabilityMonitor(SimulatedNetwork.online(), configuration: configuration)
/// let running = Task { try await monitor.run() }
/// await validator.nextCall()?.answer(.captivePortal("http://portal.example/"))
/// ```
///
/// A call without an answer ends when it is cancelled. Safe to use from any thread; only one task at a time may wait for calls.
public final class ScriptedValidator: PathValidator {
    /// A validation that waits for its answer.
    public struct Call: Sendable {
        /// The path to validate.
        public let path: NetworkPath
        private let continuation: AsyncThrowingStream<PathValidation, any Error>.Continuation

        fileprivate init(_ path: NetworkPath, _ continuation: AsyncThrowingStream<PathValidation, any Error>.Continuation) {
            (self.path, self.continuation) = (path, continuation)
        }

        /// Ends the call with a result; the monitor processes it on one of its own threads.
        public func answer(_ finding: PathValidation) { continuation.yield(finding) }

        /// Ends the call with an error.
        public func fail(_ error: any Error) { continuation.finish(throwing: error) }
    }

    private let calls = AsyncStream.makeStream(of: Call.self)
    private let count = Atomic(0)

    /// Makes a validator.
    public init() {}

    /// The number of calls so far.
    public var callCount: Int { count.load(ordering: .acquiring) }

    /// Waits for a call that no earlier ``nextCall()`` has returned; returns `nil` if the calling task is cancelled.
    public func nextCall() async -> Call? {
        for await call in calls.stream { return call }
        return nil
    }

    /// Waits for the scripted answer.
    public func validate(_ path: NetworkPath) async throws -> PathValidation {
        let (answers, continuation) = AsyncThrowingStream.makeStream(of: PathValidation.self)
        count.add(1, ordering: .acquiringAndReleasing)
        calls.continuation.yield(Call(path, continuation))
        for try await answer in answers { return answer }
        throw CancellationError()
    }
}
