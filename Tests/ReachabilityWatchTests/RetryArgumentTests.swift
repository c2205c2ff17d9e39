import ArgumentParser
import ReachabilityTesting
import ReachableRetry
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The options of a retry policy on the command line.
struct RetryArgumentTests {
    private func delays(_ text: String, _ count: Int = 4) throws -> [Duration] {
        var generator = SeededGenerator(seed: 1)
        let backoff = try BackoffArgument(text).backoff
        return (1...count).map { backoff.delay(afterFailure: $0, using: &generator) }
    }

    @Test func parsesBackoffs() throws {
        #expect(try delays("immediate") == [.zero, .zero, .zero, .zero])
        #expect(try delays("constant:2s") == [.seconds(2), .seconds(2), .seconds(2), .seconds(2)])
        #expect(try delays("linear:1s+500ms") == [1000, 1500, 2000, 2500].map { .milliseconds($0) })
        #expect(try delays("linear:1s+500ms..2s", 5) == [1000, 1500, 2000, 2000, 2000].map { .milliseconds($0) })
        #expect(try delays("exponential:500ms..3s", 5) == [500, 1000, 2000, 3000, 3000].map { .milliseconds($0) })
        #expect(try delays("exponential:1s") == [.seconds(1), .seconds(2), .seconds(4), .seconds(8)])
        #expect(try delays("fibonacci:1s..3s", 5) == [.seconds(1), .seconds(1), .seconds(2), .seconds(3), .seconds(3)])
    }

    @Test(arguments: [
        "", "immediate:1s", "constant", "constant:", "constant:2", "constant:1s..2s", "linear:1s", "linear:1s+", "linear:1s+1s+1s",
        "exponential", "exponential:..", "exponential:1s..", "exponential:..30s", "exponential:-1s..2s", "fibonacci:x",
        "quadratic:1s",
        "constant: 2s", "CONSTANT:2s",
    ])
    func rejectsOtherBackoffs(_ text: String) {
        #expect(throws: InvalidArgument.self) { try BackoffArgument(text) }
    }

    @Test func parsesExitCodes() throws {
        let codes = try ExitCodesArgument("2,64-66,255")
        #expect((0...256).filter { codes.contains(Int32($0)) } == [2, 64, 65, 66, 255])
    }

    @Test(arguments: ["", ",", "0", "256", "-1", "2,", "5-2", "1-2-3", "a", "+2", " 2", "99999999999"])
    func rejectsOtherExitCodes(_ text: String) {
        #expect(throws: InvalidArgument.self) { try ExitCodesArgument(text) }
    }

    @Test(arguments: [3, 8] as [UInt64]) func randomTextNeverTraps(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var generator = random
        for _ in 0..<20_000 {
            let name = ["constant:", "linear:", "exponential:", "fibonacci:", ""].randomElement(using: &random) ?? ""
            let text = name + random.text(of: "0123456789.+msh:-", length: 12)
            if let backoff = try? BackoffArgument(text).backoff {
                #expect(backoff.delay(afterFailure: 100, using: &generator) >= .zero, "seed \(seed), text \(text)")
            }
            _ = try? ExitCodesArgument(text)
        }
    }

    @Test func thePolicyFollowsTheOptions() throws {
        let command = try RunCommand.parse([
            "--attempts", "3", "--deadline", "1h", "--attempt-timeout", "5s", "--connectivity", "accelerate", "--backoff",
            "constant:1s", "--jitter", "none", "--give-up-on", "7", "--", "true",
        ])
        let rules = command.retry.policy.rules
        #expect(rules.maxAttempts == 3 && rules.elapsed == .seconds(3600) && rules.attemptTimeout == .seconds(5))
        #expect(rules.connectivity == .accelerate && command.command == ["true"])
        var generator = SeededGenerator(seed: 1)
        #expect(rules.backoff.delay(afterFailure: 9, using: &generator) == .seconds(1))
    }

    @Test func theDefaultNeverGivesUp() throws {
        let rules = try RunCommand.parse(["--", "true"]).retry.policy.rules
        #expect(rules.maxAttempts == nil && rules.elapsed == nil && rules.connectivity == .wait(upTo: nil))
        #expect(rules.backoff.maximum == .seconds(30))
    }

    @Test(arguments: [
        [], ["--"], ["true"], ["--attempts", "0", "--", "true"], ["--backoff", "x", "--", "true"], ["--", ""],
        ["--attempt-timeout", "0s", "--", "true"],
    ])
    func rejectsAWrongCommandLine(_ words: [String]) {
        #expect(throws: (any Error).self) { try RunCommand.parse(words) }
    }
}
