import Glibc
import ReachabilityTesting
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// `simulate`, run from a shell.
@Suite(.timeLimit(.minutes(10)), .blocking) struct SimulateProgramTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ bytes: some Collection<UInt8>) throws -> String { try folder.write(bytes, to: "scenario") }

    private func run(_ arguments: String...) throws -> Outcome { try WatchProcess.run(["simulate"] + arguments) }

    @Test func everyProcessMakesTheSameReport() throws {
        let text = "at 5s pull eth0\nat 9s plug eth0\nserver s answers 500 to 20s\njobs 30 j every 100ms to s"
        let file = try write(text.utf8)
        for format in ["text", "json", "svg"] {
            let first = try run(file, "--format", format)
            #expect(first.code == 0 && first.errors.isEmpty && !first.output.isEmpty)
            // Each process has other hash values.
            #expect(try run(file, "--format", format).output == first.output)
        }
        #expect(try run(file, "--format", "json").output != run(file, "--format", "json", "--seed", "2").output)
    }

    @Test(arguments: ["picture.svg", "report.json"]) func theNameOfTheOutputChoosesTheFormat(_ name: String) throws {
        let file = try write("job a".utf8)
        let output = "\(folder.path)/\(name)"
        for _ in 1...2 {
            let result = try run(file, "--output", output)
            #expect(result.code == 0 && result.output.isEmpty && result.errors.isEmpty)
        }
        let shown = try run(file, "--format", name == "picture.svg" ? "svg" : "json").output
        let written = try WatchProcess.run(["simulate", "-", "--output", "-"], after: "cat \(output); exec <\(file)")
        let text = try run(file).output.replacing("scenario\n", with: "standard input\n")
        #expect(written.output == shown + text)
        #expect(written.code == 0 && shown.hasPrefix(name == "picture.svg" ? "<svg xmlns=" : "{\"event\":\"scenario\""))
    }

    @Test func mistakesNameTheirLine() throws {
        let file = try write("job a\nat 5s pull eth7\npolicy p --attempts none".utf8)
        let result = try run(file)
        #expect(result.code == 65 && result.output.isEmpty)
        let lines = result.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasSuffix("scenario: line 2: 'eth7' is not a network; next: try 'eth0'") == true)
        #expect(lines.last?.contains("scenario: line 3: ") == true)
    }

    @Test func unusableFilesAreReported() throws {
        let missing = try run("\(folder.path)/none")
        #expect(missing.code == 66 && missing.errors.contains("none"))
        let large = try run(try write(Array(repeating: UInt8(ascii: "#"), count: 1 << 20 | 1)))
        #expect(large.code == 65 && large.errors.contains("has more than 1 MiB; next: "))
        let file = try write("job a".utf8)
        let target = try run(file, "--output", "/no/such/folder/picture.svg")
        #expect(target.code == 73 && target.output.isEmpty && target.errors.contains("next: create its directory"))
        #expect(try run(file, "--output", "/dev/full").code == 74)
        #expect(try run(file, "--seed", "-1").code == 64)
    }

    @Test func aMegabyteOfGarbageIsRejected() throws {
        var random = SeededGenerator(seed: 9)
        let result = try run(try write((0..<1 << 20).map { _ in UInt8.random(in: 0...255, using: &random) }))
        #expect(result.code == 65 && result.output.isEmpty)
        #expect(result.errors.split(separator: "\n").count == 11, "ten errors, and that the rest was not read")
    }
}
