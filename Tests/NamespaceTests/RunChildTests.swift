import Foundation
import Glibc
import TestSupport
import Testing

/// The environment and the exit codes of the command of `run`.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct RunChildTests {
    @Test func exitCodesArePassedOn() async throws {
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

    @Test func theCommandInheritsNoSignalStateAndFiles() async throws {
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
        // Standard input, output and error, and the folder that ls reads.
        #expect(lines.filter { Int($0) != nil }.count == 4, "\(lines)")
    }

    @Test func argumentsNeedNotBeText() async throws {
        let network = try await CabledNetwork.online()
        let script = "\"$0\" run --netns \(network.near.name) -- printf %s \"$(printf 'f\\377o')\" | od -An -tx1"
        let result = try await Child.run(["sh", "-c", script, WatchCommand.path])
        #expect(result.output.trimmingCharacters(in: .whitespaces) == "66 ff 6f")
    }

    @Test func theEnvironmentNeedNotBeText() async throws {
        let network = try await CabledNetwork.online()
        let run = "RAW=\"$(printf 'f\\377o')\" \"$0\" run --netns \(network.near.name) -- sh -c 'printf %s \"$RAW\"'"
        let result = try await Child.run(["sh", "-c", run + " | od -An -tx1", WatchCommand.path])
        #expect(result.output.trimmingCharacters(in: .whitespaces) == "66 ff 6f")
    }

    @Test func fileNamesNeedNotBeText() async throws {
        let network = try await CabledNetwork.online()
        let folder = network.marker("folder")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        // By path, then by name on the PATH.
        let script = """
            mkdir \(folder) && cd \(folder) && name=$(printf 'c\\377') && ln -s /bin/echo "$name" || exit 99
            "$0" run --netns \(network.near.name) -- "./$name" path && \
            PATH=.:$PATH "$0" run --netns \(network.near.name) -- "$name" name
            """
        #expect(try await Child.run(["sh", "-c", script, WatchCommand.path]).output == "path\nname")
    }

    @Test func namesOfInterfacesNeedNotBeText() async throws {
        let network = try await CabledNetwork.online()
        let script = """
            name=$(printf 'c\\377') && ip -n \(network.near.name) link set cable0 down && \
            ip -n \(network.near.name) link set cable0 name "$name" && "$0" status --netns \(network.near.name) --interface "$name"
            """
        let result = try await Child.run(["sh", "-c", script, WatchCommand.path], allowFailure: true)
        #expect(result.code == 1 && result.output.hasPrefix("internet%c\\xff: unsatisfied: "), "\(result)")
        #expect(!result.output.contains("no network interface"), "\(result)")
    }

    @Test func theCommandGetsTheInheritedFileLimit() async throws {
        let network = try await CabledNetwork.online()
        let command = "ulimit -Sn; ulimit -Hn; \(Self.softLimit)"
        let script = "ulimit -Sn 200; exec \"$0\" run --netns \(network.near.name) -- sh -c '\(command)'"
        let hard = try await Child.run(["sh", "-c", "ulimit -Hn"]).output
        let result = try await Child.run(["sh", "-c", script, WatchCommand.path])
        #expect(result.output == "200\n\(hard)\n\(hard)", "its own soft limit is raised")
    }

    /// The soft limit of open files of the shell's parent (proc_pid_limits(5)).
    private static let softLimit = "sed -n \"s/^Max open files *\\([0-9a-z]*\\) .*/\\1/p\" /proc/$PPID/limits"

    @Test func theCommandHasDefaultActionsForBrokenPipesAndFileLimits() async throws {
        let network = try await CabledNetwork.online()
        for (signal, number) in [("PIPE", SIGPIPE), ("XFSZ", SIGXFSZ)] {
            let child = try network.run("--attempts", "1", "--", "sh", "-c", "kill -\(signal) $$; echo survived")
            #expect(await child.exitCode() == 128 + number)
        }
    }

    @Test func aBusyExecutableIsRetried() async throws {
        let network = try await CabledNetwork.online()
        let program = network.marker("program")
        defer { unlink(program) }
        try await Child.run(["cp", "/bin/true", program])
        let writer = open(program, O_WRONLY | O_CLOEXEC)
        #expect(writer >= 0)
        let words = "--attempts 1 --summary --netns \(network.near.name) -- \(program)"
        let child = try Child(["sh", "-c", "exec \"$0\" run \(words) 2>&1", WatchCommand.path])
        var lines = child.lines.makeAsyncIterator()
        let text = "attempt 1: \(program) cannot be started now: Text file busy (errno 26)"
        #expect(
            await lines.next(isolation: #isolation) == "reachability-watch: \(text); it does not count, trying again until it can")
        close(writer)
        #expect(
            await lines.next(isolation: #isolation)?.contains("of which failed: 0, broken off by an outage: 0, not started: ")
                == true)
        #expect(await child.exitCode() == 0)
    }

    @Test func aSignalEndsTheWaitForAStart() async throws {
        let network = try await CabledNetwork.online()
        let program = network.marker("program")
        defer { unlink(program) }
        try await Child.run(["cp", "/bin/true", program])
        let writer = open(program, O_WRONLY | O_CLOEXEC)
        defer { close(writer) }
        let words = "--netns \(network.near.name) -- \(program)"
        let child = try Child(["sh", "-c", "exec \"$0\" run \(words) 2>&1", WatchCommand.path], hasTerminal: false)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation)?.contains("cannot be started now") == true)
        child.signal(SIGTERM)
        #expect(await child.exitCode() == 143)
    }

    /// A missed end would block forever; provoking it takes thousands of short commands.
    @Test func noEndOfACommandIsMissed() async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run("--attempts", "2000", "--backoff", "immediate", "--deadline", "5m", "--", "false")
        #expect(await child.exitCode() == 1)
    }

    @Test func theCommandRunsInTheNamespace() async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run("--", "readlink", "/proc/self/ns/net")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == (try await network.near.run("readlink", "/proc/self/ns/net")))
    }

    @Test func attemptsLeakNothing() async throws {
        let network = try await CabledNetwork.online()
        // The program's descriptors and children, zombies included; the only child is the asking shell.
        let script = "set -- /proc/$PPID/fd/*; echo $# $(cat /proc/$PPID/task/*/children | wc -w); exit 1"
        let child = try network.run("--backoff", "immediate", "--attempts", "30", "--", "sh", "-c", script)
        var counts: [[Int]] = []
        for await line in child.lines { counts.append(line.split(separator: " ").compactMap { Int($0) }) }
        #expect(counts.count == 30 && counts.allSatisfy { $0.count == 2 && $0[1] == 1 }, "\(counts)")
        // The last attempt's descriptors may be closed a moment later.
        #expect((counts.last?.first ?? .max) <= (counts.first?.first ?? 0) + 3, "\(counts)")
    }

    @Test func aSlowAttemptIsEndedAndRetried() async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run(
            "--attempt-timeout", "200ms", "--attempts", "2", "--backoff", "immediate", "--summary", "--", "sleep", "100")
        var messages: [String] = []
        for await message in child.errors { messages.append(message) }
        #expect(messages.contains { $0.hasSuffix("attempts: 2, of which failed: 2, broken off by an outage: 0") }, "\(messages)")
        #expect(await child.exitCode() == 124)
    }

    @Test(
        arguments: [
            ("#!/bin/sh", 0o644, "permission denied; next: chmod +x"), ("#!/no/such/interpreter", 0o755, "the interpreter"),
            ("echo", 0o755, "a line such as #!/bin/sh"),
        ] as [(String, mode_t, String)])
    func unexecutableFilesAreExplained(text: String, mode: mode_t, reason: String) async throws {
        let network = try await CabledNetwork.online()
        let folder = try TemporaryFolder()
        let script = "\(folder.path)/script"
        try folder.writeProgram(text, to: "script", mode: mode)
        let result = try await Child.run(
            [WatchCommand.path, "run", "--netns", network.near.name, "--", script], allowFailure: true)
        #expect(result.code == 126 && result.output.contains("\(script) cannot be executed: ") && result.output.contains(reason))
    }
}
