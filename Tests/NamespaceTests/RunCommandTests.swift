import Foundation
import Glibc
import Reachability
import Testing

/// `run` on the real kernel, with real commands.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(3)), .serialized)
struct RunCommandTests {
    /// `reachability-watch run`, in a namespace; what the command writes comes line by line.
    private func run(_ network: CabledNetwork, _ words: String...) throws -> Child {
        try Child([WatchCommand.path, "run", "--netns", network.near.name, "--quiet"] + words)
    }

    private func online() async throws -> CabledNetwork {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        return network
    }

    @Test func startedOfflineItWaitsForTheCable() async throws {
        let network = try await online()
        try await network.pull()
        try await network.watching { watcher in
            while watcher.path.isSatisfied { try await watcher.next() }
            let child = try run(network, "--", "echo", "there")
            var lines = child.lines.makeAsyncIterator()
            // It waits as soon as its event socket is there, beside the watcher's.
            while try await network.eventPorts().count < 2 {}
            let clock = ContinuousClock()
            try await network.plug()
            // The kernel paces its announcements: what counts is when it tells.
            while !watcher.path.isSatisfied { try await watcher.next() }
            let announced = clock.now
            #expect(await lines.next(isolation: #isolation) == "there")
            let took = clock.now - announced
            #expect(took < .milliseconds(300), "it took \(took)")
            #expect(await child.exitCode() == 0)
        }
    }

    @Test func nothingStartsWhileTheCableIsOut() async throws {
        let network = try await online()
        try await network.pull()
        let result = try await Child.run(
            [WatchCommand.path, "run", "--netns", network.near.name, "--deadline", "2s", "--summary", "--", "echo", "never"],
            allowFailure: true)
        #expect(result.code == 124)
        #expect(result.output.contains("attempts: 0, of which failed: 0") && !result.output.contains("never\n"))
    }

    @Test func aReconnectVoidsALongBackoff() async throws {
        let network = try await online()
        let marker = network.marker("ready")
        defer { unlink(marker) }
        let script = "echo attempt; exec [ -e \(marker) ]"
        let child = try run(network, "--backoff", "constant:60s", "--jitter", "none", "--", "sh", "-c", script)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "attempt")
        try await network.pull()
        #expect(FileManager.default.createFile(atPath: marker, contents: nil))
        try await network.plug()
        #expect(await lines.next(isolation: #isolation) == "attempt")
        #expect(await child.exitCode() == 0)
    }

    @Test func anAttemptThatAnOutageBrokeOffIsNotCharged() async throws {
        let network = try await online()
        let (outage, second) = (network.marker("outage"), network.marker("second"))
        defer { for file in [outage, second] { unlink(file) } }
        // The first attempt lasts until the cable is out, and fails; the second one succeeds.
        let script = """
            echo attempt; [ -e \(second) ] && exit 0; while [ ! -e \(outage) ]; do sleep 0.02; done; touch \(second); exit 1
            """
        try await network.watching { watcher in
            let child = try run(network, "--attempts", "1", "--", "sh", "-c", script)
            var lines = child.lines.makeAsyncIterator()
            #expect(await lines.next(isolation: #isolation) == "attempt")
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(FileManager.default.createFile(atPath: outage, contents: nil))
            while access(second, F_OK) != 0 { await Task.yield() }
            try await network.plug()
            #expect(await lines.next(isolation: #isolation) == "attempt")
            #expect(await child.exitCode() == 0)
        }
    }

    @Test func theDeadlineSendsTermAndThenKill() async throws {
        let network = try await online()
        let clock = ContinuousClock()
        let start = clock.now
        let child = try run(network, "--deadline", "500ms", "--", "sh", "-c", "trap 'echo TERM' TERM; while :; do sleep 0.05; done")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "TERM")
        #expect(await child.exitCode() == 124)
        let took = clock.now - start
        #expect(took > .seconds(5) && took < .seconds(8), "it took \(took)")
    }

    @Test(arguments: [SIGTERM, SIGINT, SIGHUP, SIGQUIT]) func signalsReachTheCommand(signal: Int32) async throws {
        let network = try await online()
        let child = try run(
            network, "--", "sh", "-c", "trap 'echo caught; exit 7' TERM INT HUP QUIT; echo up; while :; do sleep 0.05; done")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        child.signal(signal)
        #expect(await lines.next(isolation: #isolation) == "caught")
        #expect(await child.exitCode() == 7)
        #expect(await lines.next(isolation: #isolation) == nil, "no further attempt follows")
    }

    @Test(arguments: [SIGTERM, SIGINT, SIGHUP, SIGQUIT]) func withoutACommandSignalsEndIt(signal: Int32) async throws {
        let network = try await CabledNetwork()
        let child = try run(network, "--", "echo", "never")
        while try await network.eventPorts().isEmpty {}
        child.signal(signal)
        #expect(await child.exitCode() == 128 + signal)
    }

    @Test func theWholeGroupOfTheCommandIsEnded() async throws {
        let network = try await online()
        // Its child would hold standard output open: the lines end only when both are gone.
        let child = try run(network, "--deadline", "500ms", "--", "sh", "-c", "sleep 100 & echo up; wait")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        #expect(await child.exitCode() == 124)
        #expect(await lines.next(isolation: #isolation) == nil)
    }

    @Test func codesArePassedOn() async throws {
        let network = try await online()
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
        let network = try await online()
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
        let network = try await online()
        let script = "\"$0\" run --netns \(network.near.name) -- printf %s \"$(printf 'f\\377o')\" | od -An -tx1"
        let result = try await Child.run(["sh", "-c", script, WatchCommand.path])
        #expect(result.output.trimmingCharacters(in: .whitespaces) == "66 ff 6f")
    }
}

extension CabledNetwork {
    /// The path of a file by which a test and a command meet.
    fileprivate func marker(_ name: String) -> String {
        FileManager.default.temporaryDirectory.appendingPathComponent("\(near.name)-\(name)").path
    }
}
