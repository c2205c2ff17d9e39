import Foundation
import Reachability
import Testing

/// Sandboxes that refuse netlink, or parts of it.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct SandboxTests {
    @Test(arguments: [Sandbox.noMulticast, .noNetlink]) func pollsWithoutEvents(sandbox: Sandbox)
        async throws
    {
        let network = try await CabledNetwork.online()
        let watch = try WatchCommand(network, in: sandbox)
        let baseline = try await watch.next()
        #expect(baseline.path.status == "satisfied" && baseline.path.interface == "cable0")
        #expect(baseline.path.ipv4.gateway == (sandbox == .noMulticast ? "192.0.2.1" : nil))
        try await network.pull()
        let pulled = try await watch.next()
        #expect(pulled.path.status == "unsatisfied" && pulled.path.reason == "noCarrier" && pulled.kinds == ["offline"])
        // A poll may find the carrier before the operational state that follows from it.
        let plugged = try await watch.expect("satisfied", within: .seconds(10)) { try await network.plug() }
        #expect(plugged.epoch == 2)
    }

    @Test func reportsMissingEvents() async throws {
        let network = try await CabledNetwork.online()
        let command = [WatchCommand.path, "watch", "--netns", network.near.name, "--count", "1"]
        let result = try await Child.run(command, in: .noMulticast)
        #expect(result.output.contains("polling, because events are not available: "))
    }

    @Test func pollsDuringNetlinkShortage() async throws {
        let network = try await CabledNetwork.online()
        let watch = try WatchCommand(network, in: .scarceNetlink)
        let baseline = try await watch.next()
        #expect(baseline.path.status == "satisfied" && baseline.path.interface == "cable0" && baseline.path.ipv4.gateway == nil)
        try await watch.expect("unsatisfied", "noCarrier", within: .seconds(10)) { try await network.pull() }
        try await watch.expect("satisfied", within: .seconds(10)) { try await network.plug() }
    }

    @Test func socketShortageIsReportedAndTemporary() async throws {
        let network = try await CabledNetwork.online()
        let watch = try WatchCommand(network, in: .scarceSockets)
        let baseline = try await watch.next()
        #expect(baseline.event == "baseline" && baseline.path.status == "unknown" && baseline.cause?.kind == "blinded")
        let command = [WatchCommand.path, "watch", "--netns", network.near.name, "--count", "1"]
        let result = try await Child.run(command, in: .scarceSockets)
        #expect(result.output.contains("blind: ") && result.output.contains("Too many open files"))
        #expect(
            try await Child.run([WatchCommand.path, "run", "--netns", network.near.name, "--", "true"], in: .scarceSockets).code
                == 0)
    }

    @Test func jobsStartOnReconnectWithoutNetlink() async throws {
        let network = try await CabledNetwork.online()
        try await network.pull()
        let marker = network.marker("heard")
        defer { unlink(marker) }
        // The report on an attempt may follow its command's output, which another process writes. So the command waits.
        let command = "sh -c 'until [ -e \(marker) ]; do sleep 0.01; done; echo there'"
        let child = try Child(
            ["sh", "-c", "exec \"$0\" run --netns \(network.near.name) -- \(command) 2>&1", WatchCommand.path], in: .noNetlink)
        defer { child.signal(SIGKILL) }
        var lines = child.lines.makeAsyncIterator()
        while let line = await lines.next(isolation: #isolation), !line.contains("waiting for it") {}
        try await network.plug()
        while let line = await lines.next(isolation: #isolation), !line.contains("attempt 1 starts") {}
        try "".write(toFile: marker, atomically: true, encoding: .utf8)
        var last: String?
        while let line = await lines.next(isolation: #isolation) { last = line }
        #expect(last == "there")
        #expect(await child.exitCode() == 0)
    }

    @Test func jobsStartWithoutAnySockets() async throws {
        let network = try await CabledNetwork.online()
        func code(_ words: String...) async throws -> Int32 {
            let command = [WatchCommand.path, words[0], "--netns", network.near.name] + words.dropFirst()
            return try await Child.run(command, in: .noSockets, allowFailure: true).code
        }
        #expect(try await code("status") == 69)
        #expect(try await code("watch") == 69)
        #expect(try await code("wait") == 69)
        #expect(try await code("run", "--", "true") == 0)
    }

    /// The paths with netlink, and without it.
    @Test func verdictsMatchWithoutNetlink() async throws {
        let network = try await CabledNetwork()
        let near = network.near
        let scopes: [Scope] =
            try [.internet]
            + ["192.0.2.1", "192.0.2.10", "127.0.0.1", "2001:db8::1", "203.0.113.9"].map {
                .address(try #require(IPAddress($0)))
            }
        func compare(_ step: String) throws {
            let source = KernelNetwork(networkNamespace: near.path)
            for scope in scopes {
                let known = try ReachabilityMonitor(source).path(to: scope)
                let guessed = try Sandbox.noNetlink.run {
                    try ReachabilityMonitor(KernelNetwork(networkNamespace: near.path)).path(to: scope)
                }
                #expect(
                    guessed.status == known.status && guessed.offlineReason == known.offlineReason,
                    "\(step): \(scope): \(guessed), \(known)")
                for (one, other) in [(guessed.ipv4, known.ipv4), (guessed.ipv6, known.ipv6)] {
                    #expect(one.isSatisfied == other.isSatisfied && one.reason == other.reason, "\(step): \(scope)")
                    #expect(one.source == other.source && one.interface == other.interface, "\(step): \(scope)")
                }
            }
        }
        try compare("nothing is set up")
        try await near.ip("link set lo up")
        try await network.addIPv4()
        try compare("one cable")
        try await network.addIPv6()
        try compare("both families")
        try await network.addIPv4(1, metric: 50)
        try compare("two cables")
        try await near.ip("addr add 192.0.2.11/32 dev cable0 label cable0:1\nroute add 203.0.113.0/24 dev cable0 src 192.0.2.11")
        try compare("an alias")
        for type in ["unreachable", "prohibit", "blackhole"] {
            try await near.ip("route add \(type) 203.0.113.9")
            try compare(type)
            try await near.ip("route del \(type) 203.0.113.9")
        }
        try await near.ip("link set cable1 down")
        try compare("one is shut down")
        try await near.ip("route flush default")
        try compare("no route")
        try await network.far.ip("link set remote0 down\nlink set remote1 down")
        try compare("no carrier")
    }
}
