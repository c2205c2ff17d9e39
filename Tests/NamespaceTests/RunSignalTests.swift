import Foundation
import Glibc
import Testing

/// Signals to `run`.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct RunSignalTests {
    @Test(arguments: [SIGTERM, SIGINT, SIGHUP]) func signalsReachTheCommand(signal: Int32) async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run(
            "--", "sh", "-c", "trap 'echo caught; exit 7' TERM INT HUP QUIT; echo up; while :; do sleep 0.05; done")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        child.signal(signal)
        #expect(await lines.next(isolation: #isolation) == "caught")
        #expect(await child.exitCode() == 7)
        #expect(await lines.next(isolation: #isolation) == nil, "no further attempt follows")
    }

    @Test(arguments: [SIGTERM, SIGINT, SIGHUP]) func withoutACommandSignalsEndRun(signal: Int32) async throws {
        let network = try await CabledNetwork()
        let child = try await network.runUntilWaiting("--", "echo", "never")
        child.signal(signal)
        #expect(await child.exitCode() == 128 + signal)
    }

    @Test(arguments: [SIGTERM, SIGHUP]) func signalsReachTheWholeGroup(signal: Int32) async throws {
        let network = try await CabledNetwork.online()
        // Its child holds standard output open: the lines end when both are gone.
        let child = try network.run("--", "sh", "-c", "trap 'exit 7' TERM HUP; sh -c 'echo up; exec sleep 100' & wait")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        child.signal(signal)
        #expect(await child.exitCode() == 7)
        #expect(await lines.next(isolation: #isolation) == nil)
    }

    @Test(arguments: [SIGTERM, SIGINT, SIGHUP]) func manySignalsDoNotEndRunEarly(signal: Int32) async throws {
        let network = try await CabledNetwork.online()
        let marker = network.marker("volley")
        defer { unlink(marker) }
        let script = "trap '' TERM INT HUP QUIT; echo up; while [ ! -e \(marker) ]; do sleep 0.02; done; exit 7"
        let child = try network.run("--", "sh", "-c", script)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        for _ in 0..<500 { child.signal(signal) }
        #expect(FileManager.default.createFile(atPath: marker, contents: nil))
        #expect(await child.exitCode() == 7)
    }

    @Test func aKilledCommandIsNotRetried() async throws {
        let network = try await CabledNetwork.online()
        let child = try network.run("--backoff", "immediate", "--", "sh", "-c", "echo up; exec sleep 100")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        child.signal(SIGTERM)
        #expect(await child.exitCode() == 143)
        #expect(await lines.next(isolation: #isolation) == nil)
    }

    @Test func aCommandThatIgnoresSignalsIsKilled() async throws {
        let network = try await CabledNetwork.online()
        let clock = ContinuousClock()
        let child = try network.run("--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        let start = clock.now
        child.signal(SIGTERM)
        #expect(await child.exitCode() == 137)
        let took = clock.now - start
        #expect(took > .milliseconds(4900) && took < .seconds(8) * Machine.slowness, "it took \(took)")
    }

    @Test func aStoppedCommandIsEndedToo() async throws {
        let network = try await CabledNetwork.online()
        // Only the parent, `run`, is notified of the stop: another process polls the state (proc_pid_stat(5)).
        let observer = "(until grep -q ') T ' /proc/$$/stat; do sleep 0.02; done; echo stopped) &"
        let child = try network.run("--", "sh", "-c", "\(observer) kill -STOP $$; exit 9")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "stopped")
        child.signal(SIGTERM)
        #expect(await child.exitCode() == 143)
    }

    @Test func signalsEndProcessesOutsideTheGroup() async throws {
        let network = try await CabledNetwork.online()
        // Its descendant holds standard output open: the lines end when both are gone.
        let child = try network.run("--", "sh", "-c", "(setsid sh -c 'echo up; exec sleep 100' &); exec sleep 100")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        child.signal(SIGTERM)
        #expect(await child.exitCode() == 143)
        #expect(await lines.next(isolation: #isolation) == nil)
    }

    /// The start by nohup(1), or in the background of a shell.
    @Test(arguments: [SIGHUP, SIGINT, SIGQUIT]) func inheritedIgnoredSignalsStayIgnored(signal: Int32) async throws {
        let network = try await CabledNetwork.online()
        let marker = network.marker("ignored")
        defer { unlink(marker) }
        let command = "echo up; while [ ! -e \(marker) ]; do sleep 0.02; done; exit 5"
        let words = "--attempts 1 --quiet --netns \(network.near.name) -- sh -c '\(command)'"
        let child = try Child(
            ["sh", "-c", "trap '' HUP INT QUIT; exec \"$0\" run \(words)", WatchCommand.path], hasTerminal: false)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        child.signal(signal)
        #expect(FileManager.default.createFile(atPath: marker, contents: nil))
        #expect(await child.exitCode() == 5)
    }
}
