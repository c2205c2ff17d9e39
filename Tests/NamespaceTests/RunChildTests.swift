import Foundation
import Glibc
import Testing

/// What the command that `run` starts gets, and what becomes of it.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct RunChildTests {
    @Test func codesArePassedOn() async throws {
        let network = try await CabledNetwork.online()
        let words: [([String], Int32)] = [
            (["true"], 0), (["sh", "-c", "exit 42"], 42), (["sh", "-c", "kill -9 $$"], 137), (["no-such-command"], 127),
            (["/no/such/command"], 127), (["/etc/passwd"], 126), (["sh", "-c", "no-such-command"], 127),
        ]
        for (command, code) in words {
            let attempts = code == 126 || code == 127 ? "1000000" : "1"
            let result = try await Child.run(
                [WatchCommand.path, "run", "--netns", network.near.name, "--attempts", attempts, "--"] + command, allowFailure: true
            )
            #expect(result.code == code, "\(command): \(result.output)")
        }
    }

    @Test func theCommandStartsWithACleanSlate() async throws {
        let network = try await CabledNetwork.online()
        let script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd"
        let result = try await Child.run([WatchCommand.path, "run", "--netns", network.near.name, "--", "sh", "-c", script])
        let lines = result.output.split(separator: "\n")
        let blocked = try #require(
            lines.first { $0.hasPrefix("SigBlk") }?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) })
        let ignored = try #require(
            lines.first { $0.hasPrefix("SigIgn") }?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) })
        // 32 and 33 are glibc's own (nptl(7)).
        #expect(blocked == 0 && ignored & 0x7fff_ffff == 0, "blocked \(blocked), ignored \(ignored)")
        // Standard input, output and error, and the one that ls reads the folder with.
        #expect(lines.filter { Int($0) != nil }.count == 4, "\(lines)")
    }

    @Test func namesNeedNotBeText() async throws {
        let network = try await CabledNetwork.online()
        let script = "\"$0\" run --netns \(network.near.name) -- printf %s \"$(printf 'f\\377o')\" | od -An -tx1"
        let result = try await Child.run(["sh", "-c", script, WatchCommand.path])
        #expect(result.output.trimmingCharacters(in: .whitespaces) == "66 ff 6f")
    }

    @Test func itRunsInTheNamespace() async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run("--", "readlink", "/proc/self/ns/net")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == (try await network.near.run("readlink", "/proc/self/ns/net")))
    }

    @Test func nothingIsLeftOfAnAttempt() async throws {
        let network = try await CabledNetwork.online()
        // The descriptors of the program, and its children, zombies included: only the one that asks.
        let script = "set -- /proc/$PPID/fd/*; echo $# $(cat /proc/$PPID/task/*/children | wc -w); exit 1"
        let child = try network.run("--backoff", "immediate", "--attempts", "30", "--", "sh", "-c", script)
        var counts: [[Int]] = []
        for await line in child.lines { counts.append(line.split(separator: " ").compactMap { Int($0) }) }
        #expect(counts.count == 30 && counts.allSatisfy { $0.count == 2 && $0[1] == 1 }, "\(counts)")
        // The last attempt's may be closed a moment later.
        #expect((counts.last?.first ?? .max) <= (counts.first?.first ?? 0) + 3, "\(counts)")
    }

    @Test func anAttemptThatTakesTooLongIsEndedAndTriedAgain() async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run(
            "--attempt-timeout", "200ms", "--attempts", "2", "--backoff", "immediate", "--", "sh", "-c", "echo up; exec sleep 100")
        var lines: [String] = []
        for await line in child.lines { lines.append(line) }
        #expect(lines == ["up", "up"])
        #expect(await child.exitCode() == 143)
    }

    @Test(arguments: [
        ("#!/bin/sh\n", "644", "no permission; try chmod +x"), ("#!/no/such/interpreter\n", "755", "the interpreter"),
        ("echo\n", "755", "a first line such as #!/bin/sh"),
    ]) func whatCannotBeExecutedIsExplained(text: String, permissions: String, reason: String) async throws {
        let network = try await CabledNetwork.online()
        let script = network.marker("script")
        defer { unlink(script) }
        // Not by this process: what another test forks meanwhile would hold the file open for writing, and nobody could execute it.
        try await Child.run(["sh", "-c", "cat >\(script) && chmod \(permissions) \(script)"], input: text)
        let result = try await Child.run(
            [WatchCommand.path, "run", "--netns", network.near.name, "--", script], allowFailure: true)
        #expect(result.code == 126 && result.output.contains("\(script) cannot be executed: ") && result.output.contains(reason))
    }
}
