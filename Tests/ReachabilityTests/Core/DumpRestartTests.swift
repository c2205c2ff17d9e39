import Reachability
import Testing

@Suite struct DumpRestartTests {
    /// Makes a dump that succeeds at an attempt; tells the pauses, and for each attempt whether it was called the last.
    private func pauses(successAt success: Int) throws -> (dump: Int?, pauses: [Duration], last: [Bool]) {
        var (pauses, last): ([Duration], [Bool]) = ([], [])
        let attempt = { (isLast: Bool) throws(ReachabilityError) -> Int? in
            last.append(isLast)
            return last.count == success ? success : nil
        }
        let dump = try DumpRestart.repeating(rest: { pauses.append($0) }, attempt)
        return (dump, pauses, last)
    }

    @Test func aDumpThatSucceedsIsMadeOnce() throws {
        let result = try pauses(successAt: 1)
        #expect(result.dump == 1 && result.pauses.isEmpty && result.last == [false])
    }

    @Test func aDumpIsMadeAgainFiveTimesAfterGrowingPauses() throws {
        let result = try pauses(successAt: 6)
        #expect(result.dump == 6 && result.pauses == [10, 20, 40, 80, 160].map { Duration.milliseconds($0) })
        #expect(result.last == [false, false, false, false, false, true])
        let third = try pauses(successAt: 3)
        #expect(third.dump == 3 && third.pauses.count == 2)
        let never = try pauses(successAt: 7)
        #expect(never.dump == nil && never.last.count == 6)
    }

    @Test func anErrorEndsItAtOnce() {
        var attempts = 0
        let failure = ReachabilityError(.requestFailed, errno: 22, operation: "RTM_GETLINK")
        let attempt = { (_: Bool) throws(ReachabilityError) -> Int? in
            attempts += 1
            throw failure
        }
        #expect(throws: failure) { _ = try DumpRestart.repeating(rest: { _ in }, attempt) }
        #expect(attempts == 1)
    }
}
