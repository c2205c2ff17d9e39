import Foundation
import Glibc
import TestSupport
import Testing

/// `watch --log` on the real kernel.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct LogTests {
    @Test func aHookAndJSONShareTheWatchWithALog() async throws {
        let network = try await CabledNetwork.online()
        let (file, moved) = (network.marker("log"), network.marker("moved"))
        defer { for path in [file, moved] { unlink(path) } }
        let watch = try WatchCommand(network, options: ["--raw", "--log", file, "--exec", "echo"])
        var hooks = watch.child.errors.makeAsyncIterator()
        #expect(try await watch.next().path.status == "satisfied")
        #expect(await hooks.next(isolation: #isolation) == "online")
        try await watch.expect("unsatisfied", "noCarrier") { try await network.pull() }
        #expect(await hooks.next(isolation: #isolation) == "offline")
        // SIGHUP opens the log again; it ends neither the watch nor its hooks.
        #expect(rename(file, moved) == 0)
        watch.child.signal(SIGHUP)
        try await watch.expect("satisfied") { try await network.plug() }
        #expect(await hooks.next(isolation: #isolation) == "online")
        watch.child.signal(SIGTERM)
        #expect(await watch.child.exitCode() == 143)

        let lines = try [moved, file].flatMap { try String(contentsOfFile: $0, encoding: .utf8).split(separator: "\n") }
        #expect(lines.last?.hasPrefix(#"{"event":"end","#) == true)
        let states = try lines.dropLast().map { try JSONDecoder().decode(WatchCommand.Line.self, from: Data($0.utf8)) }
        // The second file begins with the state of its beginning.
        #expect(states.map(\.event) == ["baseline", "transition", "baseline", "transition"] || states[2].event == "transition")
        #expect(states.filter { $0.event == "transition" }.map(\.path.status) == ["unsatisfied", "satisfied"])
        #expect(states.filter { $0.event == "transition" }.map(\.sequence) == [1, 2])
    }

    @Test func aFullDiskInterruptsOnlyTheLog() async throws {
        let network = try await CabledNetwork.online()
        let directory = try TemporaryFolder()
        let folder = directory.path
        // A disk of two pages, one of which is taken. It disappears with the command's mount namespace.
        let disk = "mount -t tmpfs -o size=8k none \(folder) && head -c 4096 /dev/zero >\(folder)/filler && exec \"$0\" \"$@\""
        let watch = WatchCommand(
            try Child(
                [
                    "unshare", "--mount", "sh", "-c", disk, WatchCommand.path, "watch", "--format", "json", "--raw",
                    "--netns", network.near.name, "--log", "\(folder)/log",
                ]))
        var messages = watch.child.errors.makeAsyncIterator()
        #expect(try await watch.next().path.status == "satisfied")
        let near = network.near
        func flip() async throws {
            try await watch.expect("unsatisfied", "noRoute") { try await near.ip("route del default") }
            try await watch.expect("satisfied") { try await near.ip("route add default via 192.0.2.1 dev cable0") }
        }
        for _ in 1...5 { try await flip() }
        let failure = try #require(await messages.next(isolation: #isolation))
        let remedy = "next: free space on its disk; the log continues when it can"
        #expect(failure.hasSuffix("/log cannot be written: No space left on device (errno 28); \(remedy)"))

        // The watch has gone on meanwhile.
        #expect(unlink("/proc/\(watch.child.pid)/root\(folder)/filler") == 0)
        try await flip()
        #expect(await messages.next(isolation: #isolation)?.hasSuffix("/log is written again") == true)
        let text = readFile("/proc/\(watch.child.pid)/root\(folder)/log")
        watch.child.signal(SIGTERM)
        #expect(await watch.child.exitCode() == 143)

        let lines = try text.split(separator: "\n").filter { !$0.contains(#""event":"alive""#) }
            .map { try JSONDecoder().decode(WatchCommand.Line.self, from: Data($0.utf8)) }
        let again = try #require(lines.dropFirst().firstIndex { $0.event == "baseline" })
        let before = lines[..<again]
        #expect(before.map(\.sequence) == Array(0..<before.count) && before.count > 2)
        #expect(lines[again].sequence > before.count, "the gap can be seen")
        #expect(lines[again...].dropFirst().first?.sequence == lines[again].sequence + 1)
    }
}
