import CommandKit
import FoundationEssentials
import ReachableJobs
import Testing

@testable import reachability_service

struct QueuedCommandTests {
    private static func command(_ words: [[UInt8]], variables: [String] = [], options: [String] = []) throws -> QueuedCommand {
        try QueuedCommand(words, variables: variables, options: options)
    }

    @Test func argumentsNeedNotBeText() throws {
        let words: [[UInt8]] = [Array("cp".utf8), [0xff, 0x61], Array("ü \"\\".utf8), []]
        let stored = try JSONEncoder().encode(try Self.command(words))
        #expect(try JSONDecoder().decode(QueuedCommand.self, from: stored).words.map(\.bytes) == words)
    }

    @Test(arguments: [
        ("plain", "plain"), ("a b", "'a b'"), ("it's", #"'it'\''s'"#), ("", "''"), ("$(id)", "'$(id)'"),
        ("\u{1b}[31mred", #"'\x1b[31mred'"#), ("\u{202e}gpj.exe", #"'\u{202e}gpj.exe'"#),
    ])
    func linesAreForShellsAndTerminals(_ word: String, _ text: String) throws {
        #expect(try Self.command([Array("echo".utf8), Array(word.utf8)]).line == "echo \(text)")
    }

    @Test func onlyNamedVariablesAreStored() throws {
        let environment = try Self.command([[0x61]], variables: ["TOKEN=s", "EMPTY="]).environment
        #expect(Set(environment.keys).subtracting(["PATH", "HOME", "LANG"]) == ["TOKEN", "EMPTY"])
        #expect(environment["TOKEN"]?.text == "s" && environment["EMPTY"]?.text == "")
        #expect(throws: InvalidArgument.self) { try Self.command([[0x61]], variables: ["NOT_SET_ANYWHERE"]) }
        #expect(throws: InvalidArgument.self) { try Self.command([[0x61]], variables: ["=x"]) }
    }

    @Test(arguments: [("exit code 3", 3), ("ended by signal 9 (Killed)", 137), ("the disk is full", nil)] as [(String, Int32?)])
    func exitCodesAreReadFromFailures(_ text: String, _ code: Int32?) {
        #expect(ChildFailure.code(of: text) == code)
    }

    @Test(arguments: [ChildFailure.Cause.exited(7), .signaled(15)])
    func exitCodesOfFailuresAreThoseOfTheirTexts(_ cause: ChildFailure.Cause) {
        let failure = ChildFailure(cause: cause)
        #expect(ChildFailure.code(of: failure.description) == failure.code)
    }
}
