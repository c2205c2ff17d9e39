import Testing

@testable import Reachability

/// Interrupted dumps, and the one that is accepted.
@Suite struct DumpFailuresTests {
    private let failures = DumpFailures()
    private let interruption = ReachabilityError(.interrupted, operation: "RTM_GETLINK")

    /// Makes an interrupted dump, and returns `true` if it was accepted.
    private func isTaken() -> Bool {
        let dump = { [interruption] (isLast: Bool) throws(ReachabilityError) in if !isLast { throw interruption } }
        do {
            try failures.counting(dump)
            return true
        } catch {
            return false
        }
    }

    @Test func sixthInterruptedDumpIsAccepted() {
        #expect(
            (0..<13).map { _ in isTaken() } == [
                false, false, false, false, false, true, false, false, false, false, false, true, false,
            ])
        #expect(failures.inARow == 0, "an interruption is no failure")
    }

    @Test func successfulDumpResetsCount() throws {
        for _ in 0..<4 { #expect(!isTaken()) }
        try failures.counting { _ throws(ReachabilityError) in }
        for _ in 0..<5 { #expect(!isTaken()) }
        #expect(isTaken())
    }

    @Test func failuresInARowAreCounted() throws {
        let failure = ReachabilityError(.requestFailed, errno: 12, operation: "RTM_GETLINK")
        for count in 1...3 {
            #expect(throws: failure) { try failures.counting { _ throws(ReachabilityError) in throw failure } }
            #expect(failures.inARow == count)
        }
        try failures.counting { _ throws(ReachabilityError) in }
        #expect(failures.inARow == 0)
    }
}
