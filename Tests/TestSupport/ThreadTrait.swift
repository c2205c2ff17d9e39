internal import ReachabilityTesting
package import Testing

/// Runs a test's tasks on threads of their own.
///
/// The default pool has one thread per processor: two tests that keep theirs would hold up every other test's tasks, and with them
/// the times that those measure.
package struct ThreadTrait: TestTrait, SuiteTrait, TestScoping {
    fileprivate let executor: ThreadPerJobExecutor

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // A suite has one scope for itself and one for each test.
        guard testCase != nil else { return try await function() }
        try await withTaskExecutorPreference(executor, operation: function)
    }
}

extension Trait where Self == ThreadTrait {
    /// The test blocks in poll(2), read(2) or waitpid(2).
    package static var blocking: ThreadTrait { ThreadTrait(executor: ThreadPerJobExecutor()) }

    /// The test computes for seconds; tests that measure times come first.
    package static var computing: ThreadTrait { ThreadTrait(executor: ThreadPerJobExecutor(niceness: 10)) }
}
