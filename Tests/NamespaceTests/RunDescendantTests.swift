import Foundation
import Glibc
import Testing

/// The processes that a command starts.
///
/// They hold standard output open: the lines end with the last process.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct RunDescendantTests {
    /// Processes that ignore a signal to the command's group, or are outside of it.
    private static let escapes = [
        // In the group, ignores SIGTERM, and its parent is gone.
        "(trap '' TERM; sh -c 'echo up; sleep 100; :') & exec sleep 0.2",
        // In a session of its own.
        "setsid sh -c 'echo up; exec sleep 100' & wait",
        // In a session of its own, and an orphan.
        "(setsid sh -c 'sh -c \"echo up; exec sleep 100\" &') & exec sleep 100",
        // Stopped.
        "(echo up; kill -STOP $(exec sh -c 'echo $PPID')) & exec sleep 100",
    ]

    @Test(arguments: escapes) func theDeadlineEndsAllDescendants(script: String) async throws {
        let network = try await CabledNetwork.online()
        let script = script.replacing("exec sleep 0.2", with: "exec sleep 100")
        let child = try network.run("--deadline", "5s", "--", "sh", "-c", script)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        #expect(await child.exitCode() == 124)
        #expect(await lines.next(isolation: #isolation) == nil)
    }

    @Test(arguments: escapes) func theAttemptTimeoutEndsAllDescendants(script: String) async throws {
        let network = try await CabledNetwork.online()
        let script = script.replacing("exec sleep 0.2", with: "exec sleep 100")
        let child = try network.run(
            "--attempt-timeout", "3s", "--attempts", "2", "--backoff", "immediate", "--", "sh", "-c",
            // A zombie is about to be reaped.
            "pgrep -r D,R,S,T,t -P $PPID | grep -vx $$ >&2 && exit 77; \(script)")
        var ups = 0
        for await line in child.lines where line == "up" { ups += 1 }
        // The second attempt found no process of the first one.
        let code = await child.exitCode()
        #expect(ups == 2 && code == 124)
    }

    @Test func aHandlerMayStartProcesses() async throws {
        let network = try await CabledNetwork.online()
        let script = "trap 'sh -c \"sleep 0.3; echo cleaned\"; exit 3' TERM; echo up; while :; do sleep 0.05; done"
        let child = try network.run("--deadline", "3s", "--", "sh", "-c", script)
        var lines: [String] = []
        for await line in child.lines { lines.append(line) }
        #expect(lines == ["up", "cleaned"])
        #expect(await child.exitCode() == 124)
    }

    @Test(arguments: [0, 3]) func backgroundProcessesKeepRunning(code: Int32) async throws {
        let network = try await CabledNetwork.online()
        let script = "sleep 100 >/dev/null 2>&1 & echo $!; exit \(code)"
        let child = try network.run("--attempts", "1", "--", "sh", "-c", script)
        var lines = child.lines.makeAsyncIterator()
        let pid = try #require(await lines.next(isolation: #isolation).flatMap { pid_t($0) })
        #expect(await child.exitCode() == code)
        #expect(kill(pid, SIGKILL) == 0)
    }

    @Test func orphansAreReaped() async throws {
        let network = try await CabledNetwork.online()
        let marker = network.marker("orphan")
        defer { unlink(marker) }
        // The orphan ends once this program is its parent, and then disappears from /proc.
        let script = """
            (sh -c 'echo $$; until [ -e \(marker) ]; do sleep 0.01; done' &)
            read pid <\(marker).pid; until grep -q "^PPid:.$PPID\\$" /proc/$pid/status; do sleep 0.01; done
            touch \(marker); while [ -e /proc/$pid ]; do sleep 0.01; done; echo reaped
            """
        let pipe = "\(marker).pid"
        #expect(mkfifo(pipe, 0o600) == 0)
        defer { unlink(pipe) }
        let child = try network.run("--", "sh", "-c", script.replacing("echo $$;", with: "echo $$ >\(pipe);"))
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "reaped")
        #expect(await child.exitCode() == 0)
    }

    @Test func earlierChildrenAreNotTouched() async throws {
        let network = try await CabledNetwork.online()
        let words = "--quiet --netns \(network.near.name) --deadline 500ms -- sleep 100"
        let child = try Child(
            ["sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!; exec \"$0\" run \(words)", WatchCommand.path], hasTerminal: false)
        var lines = child.lines.makeAsyncIterator()
        let pid = try #require(await lines.next(isolation: #isolation).flatMap { pid_t($0) })
        #expect(await child.exitCode() == 124)
        #expect(kill(pid, SIGKILL) == 0)
    }
}
