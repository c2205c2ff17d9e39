import ReachabilityTesting
import Testing

/// Runs a test's tasks on threads of their own, because they block in poll(2), read(2) or waitpid(2).
struct BlockingTrait: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // A suite has one scope for itself and one for each test.
        guard testCase != nil else { return try await function() }
        try await withTaskExecutorPreference(ThreadPerJobExecutor(), operation: function)
    }
}

extension Trait where Self == BlockingTrait {
    /// The test blocks its thread.
    static var blocking: BlockingTrait { BlockingTrait() }
}
