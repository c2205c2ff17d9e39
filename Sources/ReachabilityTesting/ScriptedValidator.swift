public import Reachability
internal import Synchronization

/// A validator that says what a test wants, when it wants.
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
/// A call that nobody answers ends when it is cancelled. All members can be used from any thread; one task at a time waits for
/// calls.
public final class ScriptedValidator: PathValidator {
    /// A validation that waits for its answer.
    public struct Call: Sendable {
        /// The path that is to be validated.
        public let path: NetworkPath
        private let continuation: AsyncThrowingStream<PathValidation, any Error>.Continuation

        fileprivate init(_ path: NetworkPath, _ continuation: AsyncThrowingStream<PathValidation, any Error>.Continuation) {
            (self.path, self.continuation) = (path, continuation)
        }

        /// Ends the call with a finding; the monitor takes it in on a thread of its own.
        public func answer(_ finding: PathValidation) { continuation.yield(finding) }

        /// Ends the call with an error.
        public func fail(_ error: any Error) { continuation.finish(throwing: error) }
    }

    private let calls = AsyncStream.makeStream(of: Call.self)
    private let count = Atomic(0)

    /// Makes a validator that was not called yet.
    public init() {}

    /// How often it was called.
    public var callCount: Int { count.load(ordering: .acquiring) }

    /// Suspends until there is a call that was not returned yet; `nil` if the calling task is cancelled.
    public func nextCall() async -> Call? {
        for await call in calls.stream { return call }
        return nil
    }

    /// Waits for the answer.
    public func validate(_ path: NetworkPath) async throws -> PathValidation {
        let (answers, continuation) = AsyncThrowingStream.makeStream(of: PathValidation.self)
        count.add(1, ordering: .acquiringAndReleasing)
        calls.continuation.yield(Call(path, continuation))
        for try await answer in answers { return answer }
        throw CancellationError()
    }
}
