import Foundation
import Glibc
import Reachability
import TestSupport
import Testing

/// The commands on the real kernel.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct CommandTests {
    @Test func watchReportsChangesWithinASecond() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let watch = try WatchCommand(network)
        let baseline = try await watch.next()
        #expect(baseline.event == "baseline" && baseline.path.status == "satisfied" && baseline.path.interface == "cable0")
        let near = network.near
        let pulled = try await watch.expect("unsatisfied", "noCarrier", within: .seconds(1) + Watcher.carrierDelay) {
            try await network.pull()
        }
        #expect(pulled.kinds == ["offline"] && pulled.cause?.kind == "linkDown" && pulled.cause?.detail == "cable0 lost carrier")
        let back = try await watch.expect("satisfied") { try await network.plug() }
        #expect(back.kinds == ["online"] && back.epoch == 2)
        try await watch.expect("unsatisfied", "adminDown") { try await near.ip("link set cable0 down") }
        try await watch.expect("unsatisfied", "noRoute") { try await near.ip("link set cable0 up") }
        try await watch.expect("satisfied") { try await near.ip("route add default via 192.0.2.1") }
        try await watch.expect("unsatisfied", "noAddress") { try await near.ip("addr del 192.0.2.10/24 dev cable0") }
        try await watch.expect("satisfied") { try await network.addIPv4() }
        for (type, reason) in [("unreachable", "unreachable"), ("prohibit", "prohibited"), ("blackhole", "blackhole")] {
            try await watch.expect("unsatisfied", reason) { try await near.ip("route add \(type) default metric 1") }
            try await watch.expect("satisfied") { try await near.ip("route del \(type) default metric 1") }
        }
        try await watch.expect("unsatisfied", "noRoute") { try await near.ip("route del default") }
        try await watch.expect("satisfied") {
            try await near.ip("nexthop add id 7 via 192.0.2.1 dev cable0\nroute add default nhid 7")
        }
        try await watch.expect("unsatisfied", "noRoute") { try await near.ip("nexthop del id 7") }
        try await watch.expect("satisfied") { try await network.addIPv6() }
        try await watch.expect("unsatisfied", "noInterface") { try await near.ip("link del cable0\nlink del cable1") }
        watch.child.signal(SIGTERM)
        #expect(await watch.child.exitCode() == 143)
    }

    @Test func waitEndsWhenTheCableReturns() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.pull()
        // The kernel announces carrier changes at least one second apart (net/core/link_watch.c): let that second pass.
        let impatient = ["wait", "--timeout", "1100ms", "--netns", network.near.name]
        #expect(try await Child.run([WatchCommand.path] + impatient, allowFailure: true).code == 1)
        try await network.watching { watcher in
            let wait = try await Child.listening([WatchCommand.path, "wait", "--netns", network.near.name])
            try await network.plug()
            // All links of the machine share that second, those of other tests too: measure from the announcement.
            while !watcher.path.isSatisfied { try await watcher.next() }
            let clock = ContinuousClock()
            let announced = clock.now
            #expect(await wait.exitCode() == 0)
            let took = clock.now - announced
            #expect(took < .milliseconds(300) * Machine.slowness, "it took \(took)")
        }
    }

    @Test func waitTimesOutWithOne() async throws {
        let network = try await CabledNetwork()
        let result = try await Child.run(
            [WatchCommand.path, "wait", "--timeout", "50ms", "--netns", network.near.name], allowFailure: true)
        #expect(result.code == 1 && result.output.isEmpty)
        let status = try await Child.run([WatchCommand.path, "status", "--netns", network.near.name], allowFailure: true)
        let lines = [
            "internet: unsatisfied: interface is shut down",
            "  missing: an interface that leads there: cable0 is shut down, cable1 is shut down",
            "  next:    ip link show; ip -4 route show table all",
        ]
        #expect(status.code == 1 && status.output == lines.joined(separator: "\n"))
    }

    @Test func multicastIsJudgedForUDP() async throws {
        let network = try await CabledNetwork.online()
        let words = ["--to", "239.255.255.250", "--netns", network.near.name]
        for command in [["status"], ["explain"], ["wait", "--timeout", "1s"]] {
            let result = try await Child.run([WatchCommand.path] + command + words, allowFailure: true)
            #expect(result.code == 64, "\(command)")
        }
        let status = try await Child.run([WatchCommand.path, "status", "--udp", "--port", "1900"] + words)
        #expect(status.output == "239.255.255.250 udp port 1900: satisfied via cable0, source 192.0.2.10, IPv4")
        try await network.near.ip("route del default")
        let lost = try await Child.run([WatchCommand.path, "status", "--udp"] + words, allowFailure: true)
        #expect(lost.code == 1 && lost.output.contains("no route"), "\(lost.output)")
    }

    @Test func aStoppedWatchCatchesUpWithAFlood() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        // The filter would drop the whole flood.
        let watch = try WatchCommand(network, "--no-filter")
        #expect(try await watch.next().path.status == "satisfied")
        watch.child.signal(SIGSTOP)
        let near = network.near
        try await near.ip((0..<60_000).map { "route add 10.\($0 >> 8).\($0 & 255).0/24 via 192.0.2.1" }.joined(separator: "\n"))
        try await near.ip((0..<150).map { "link add flood\($0) type veth peer name doolf\($0)" }.joined(separator: "\n"))
        try await near.ip("route del default")
        let lost = try await watch.expect("unsatisfied", "noRoute") { watch.child.signal(SIGCONT) }
        #expect(lost.kinds.contains("offline"))
        try await watch.expect("satisfied") { try await near.ip("route add default via 192.0.2.1 dev cable0") }
        try await watch.expect("unsatisfied", "adminDown") { try await near.ip("link set cable0 down") }
        watch.child.signal(SIGTERM)
        #expect(await watch.child.exitCode() == 143)
    }

    @Test func anUnknownNamespaceIsAUsageError() async throws {
        let result = try await Child.run([WatchCommand.path, "status", "--netns", "no-such-namespace"], allowFailure: true)
        #expect(result.code == 64 && result.output.contains("no-such-namespace") && result.output.contains("ip netns list"))
    }
}

/// The command lines of the README, verbatim.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct ReadmeCommandTests {
    @Test(arguments: try examples()) func examplesStartWhenTheNetworkIsBack(_ example: String) async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        try await network.near.ip("link set cable0 down")
        let folder = try TemporaryFolder()
        // A stand-in for rsync. Not a script: a child started by another test would hold it open for writing, and execve(2) would
        // fail with ETXTBSY.
        try FileManager.default.createSymbolicLink(atPath: "\(folder.path)/rsync", withDestinationPath: "/bin/echo")

        let bin = URL(fileURLWithPath: WatchCommand.path).deletingLastPathComponent().path
        let script = "PATH=\(folder.path):\(bin):$PATH\n\(example)"
        let shell = try await Child.listening(["ip", "netns", "exec", network.near.name, "sh", "-c", script])
        try await network.near.ip("link set cable0 up\nroute add default via 192.0.2.1 dev cable0")
        var lines = shell.lines.makeAsyncIterator()
        #expect(await lines.next() == "-a photos/ nas:photos/")
        #expect(await shell.exitCode() == 0)
    }

    /// Returns the examples of the section "On the command line".
    private static func examples() throws -> [String] {
        let section = try #require(Documents.text("README.md").components(separatedBy: "## On the command line").last)
        let examples = Documents.blocks(of: "sh", in: section)
        return try #require(examples.count == 2 ? examples : nil)
    }
}
