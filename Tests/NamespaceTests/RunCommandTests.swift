import Foundation
import Glibc
import Reachability
import Testing

@testable import CommandKit
@testable import reachability_watch

/// `run` on the real kernel, with real commands.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct RunCommandTests {
    @Test func runWaitsForTheCable() async throws {
        let network = try await CabledNetwork.online()
        let marker = network.marker("plugged")
        defer { unlink(marker) }
        try await network.pull()
        try await network.watching { watcher in
            while watcher.path.isSatisfied { try await watcher.next() }
            let child = try await network.runUntilWaiting("--", "sh", "-c", "[ -e \(marker) ] && echo there || echo early")
            var lines = child.lines.makeAsyncIterator()
            let clock = ContinuousClock()
            #expect(FileManager.default.createFile(atPath: marker, contents: nil))
            try await network.plug()
            // The kernel delays its announcements: measure from the announcement.
            while !watcher.path.isSatisfied { try await watcher.next() }
            let announced = clock.now
            #expect(await lines.next(isolation: #isolation) == "there")
            let took = clock.now - announced
            #expect(took < .milliseconds(300) * Machine.slowness, "it took \(took)")
            #expect(await child.exitCode() == 0)
        }
    }

    @Test func noAttemptStartsWithoutTheCable() async throws {
        let network = try await CabledNetwork.online()
        try await network.pull()
        let result = try await Child.run(
            [WatchCommand.path, "run", "--netns", network.near.name, "--deadline", "2s", "--summary", "--", "echo", "never"],
            allowFailure: true)
        #expect(result.code == 124)
        #expect(result.output.contains("attempts: 0, of which failed: 0") && !result.output.contains("never\n"))
    }

    @Test func theSummaryTimesAReconnect() async throws {
        let network = try await CabledNetwork.online()
        try await network.pull()
        try await network.watching { watcher in
            while watcher.path.isSatisfied { try await watcher.next() }
            let words = "--netns \(network.near.name) --summary -- echo there"
            let child = try Child(["sh", "-c", "exec \"$0\" run \(words) 2>&1", WatchCommand.path])
            var lines = child.lines.map { $0.replacing("reachability-watch: ", with: "") }.makeAsyncIterator()
            #expect(await lines.next(isolation: #isolation) == "no network (cable0 has no carrier): waiting for it")
            try await network.plug()
            var output: [String] = []
            while let line = await lines.next(isolation: #isolation) { output.append(line) }
            #expect(
                output.contains("there") && output.contains("attempts: 1, of which failed: 0, broken off by an outage: 0"),
                "\(output)")
            #expect(output.contains("attempts started while offline: 0"), "\(output)")
            let prefix = "from the reconnect to the attempt: "
            let time = try #require(output.first { $0.hasPrefix(prefix) }, "\(output)").dropFirst(prefix.count)
            #expect(try DurationArgument(String(time)).duration < .milliseconds(300) * Machine.slowness, "\(output)")
        }
    }

    @Test func aReconnectEndsALongBackoff() async throws {
        let network = try await CabledNetwork.online()
        let marker = network.marker("ready")
        defer { unlink(marker) }
        let script = "[ -e \(marker) ]; result=$?; echo attempt; exit $result"
        let child = try network.run("--backoff", "constant:1h", "--jitter", "none", "--", "sh", "-c", script)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "attempt")
        try await network.pull()
        #expect(FileManager.default.createFile(atPath: marker, contents: nil))
        try await network.plug()
        #expect(await lines.next(isolation: #isolation) == "attempt")
        #expect(await child.exitCode() == 0)
    }

    @Test func anAttemptBrokenOffByAnOutageIsFree() async throws {
        let network = try await CabledNetwork.online()
        let (outage, second) = (network.marker("outage"), network.marker("second"))
        defer { for file in [outage, second] { unlink(file) } }
        // The first attempt lasts until the cable is out, and fails; the second one succeeds.
        let script = """
            echo attempt; [ -e \(second) ] && exit 0; while [ ! -e \(outage) ]; do sleep 0.02; done; \
            touch \(second); echo over; exit 1
            """
        try await network.watching { watcher in
            let child = try network.run("--attempts", "1", "--", "sh", "-c", script)
            var lines = child.lines.makeAsyncIterator()
            #expect(await lines.next(isolation: #isolation) == "attempt")
            try await network.pull()
            while watcher.path.isSatisfied { try await watcher.next() }
            #expect(FileManager.default.createFile(atPath: outage, contents: nil))
            #expect(await lines.next(isolation: #isolation) == "over")
            try await network.plug()
            #expect(await lines.next(isolation: #isolation) == "attempt")
            #expect(await child.exitCode() == 0)
        }
    }

    @Test func theDeadlineSendsTermAndThenKill() async throws {
        let network = try await CabledNetwork.online()
        let clock = ContinuousClock()
        let start = clock.now
        let child = try network.run("--deadline", "3s", "--", "sh", "-c", "trap 'echo TERM' TERM; while :; do sleep 0.05; done")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "TERM")
        #expect(await child.exitCode() == 124)
        let took = clock.now - start
        #expect(took > .seconds(8) && took < .seconds(11) * Machine.slowness, "it took \(took)")
    }

    @Test func theDeadlineEndsTheWholeGroup() async throws {
        let network = try await CabledNetwork.online()
        // Its child holds standard output open: the lines end when both are gone.
        let child = try network.run("--deadline", "3s", "--", "sh", "-c", "sleep 100 & echo up; wait")
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "up")
        #expect(await child.exitCode() == 124)
        #expect(await lines.next(isolation: #isolation) == nil)
    }
}
