import CommandKit
import ReachabilityTesting
import TestSupport
import Testing

@testable import reachability_service

/// The lines of hooks, and their limits.
struct HookLinesTests {
    private static func lines(_ texts: String...) -> [String] {
        var lines = HookLines()
        var result = lines.begin("10-a")
        for text in texts { result += lines.take(text.utf8) }
        return result + lines.end()
    }

    @Test func linesHaveTheNameOfTheirHook() {
        #expect(Self.lines("one\ntw", "o\r\n\n\nthree") == ["hook 10-a: one", "hook 10-a: two", "hook 10-a: three"])
        #expect(Self.lines().isEmpty)
    }

    @Test func linesAreForTheJournal() {
        #expect(Self.lines("<3>\u{1b}[2J\u{202e}é\n") == [#"hook 10-a: \x3c3>\x1b[2J\u{202e}é"#])
        var lines = HookLines()
        _ = lines.begin("a")
        #expect(lines.take([0x61, 0xff, 0x0a]) == [#"hook a: a\xff"#])
    }

    @Test func longLinesAreCut() {
        let text = String(repeating: "a", count: HookLines.longestLine)
        #expect(Self.lines(text, "\n", text, "b", "c\nd\n") == ["hook 10-a: \(text)", "hook 10-a: \(text)…", "hook 10-a: d"])
        // Not within a character.
        for prefix in ["", "a", "aa", "aaa"] {
            let line = Self.lines(prefix + String(repeating: "😀", count: HookLines.longestLine))[0]
            let count = (HookLines.longestLine - prefix.utf8.count) / 4
            #expect(line == "hook 10-a: \(prefix)\(String(repeating: "😀", count: count))…")
        }
    }

    @Test func linesBeyondTheLimitAreCounted() {
        let most = HookLines.mostLines
        var lines = Self.lines(String(repeating: "x\n", count: most))
        #expect(lines.count == most && lines.last == "hook 10-a: x")
        lines = Self.lines(String(repeating: "x\n", count: most + 1))
        #expect(lines.count == most + 1)
        #expect(lines.last == "hook 10-a: 1 more line left out; next: write long output to a file")
        #expect(Self.lines(String(repeating: "x\n", count: most + 2)).last?.contains(": 2 more lines left out; next: ") == true)
    }

    @Test func eachHookHasItsOwnLimit() {
        var lines = HookLines()
        _ = lines.begin("a")
        _ = lines.take(String(repeating: "x\n", count: HookLines.mostLines + 1).utf8)
        _ = lines.end()
        #expect(lines.take("late\nunfinished".utf8) == ["a process of earlier hooks: late"])
        #expect(lines.begin("b") == ["a process of earlier hooks: unfinished"])
        #expect(lines.take("y\n".utf8) == ["hook b: y"] && lines.end().isEmpty)
    }

    @Test func everythingThatAHookWroteComesBeforeItsEnd() async throws {
        let said = Recorder<String>()
        let output = try HookOutput { line in said.record(line) }
        let target = DescriptorOutput(descriptor: output.descriptor)
        for number in 0..<20 {
            try await output.run("a") { () throws(ChildFailure) in
                do { try target.write("\(number)") } catch { throw ChildFailure(cause: .exited(74)) }
            }
            #expect(said.value.last == "hook a: \(number)")
        }
        await #expect(throws: ChildFailure(cause: .exited(3))) {
            try await output.run("b") { () throws(ChildFailure) in throw ChildFailure(cause: .exited(3)) }
        }
        #expect(said.value.count == 20)
    }
}
