import Foundation
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Host names, looked up by the system.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct HostTests {
    /// In /etc/hosts on every machine: no name server is needed.
    private let local = Scope.host("localhost")

    @Test func hostIsReachableWithItsAddress() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("link set lo up")
        try await network.watching(local) { watcher in
            #expect(watcher.path.isSatisfied && watcher.path.interface?.name == "lo")
            try await watcher.expect(.unsatisfied, .adminDown) { try await network.near.ip("link set lo down") }
        }
    }

    @Test func unknownNameIsUnresolved() async throws {
        let network = try await CabledNetwork.online()
        // RFC 6761 reserves it: it never exists.
        try await network.watching(.host("name.invalid")) { watcher in
            #expect(watcher.path.offlineReason == .unresolved)
        }
    }

    @Test func statusAcceptsHostNames() async throws {
        let network = try await CabledNetwork.online()
        try await network.near.ip("link set lo up")
        func status(_ host: String) async throws -> (code: Int32, output: String) {
            let command = [WatchCommand.path, "status", "--netns", network.near.name, "--timeout", "1m", "--to", host]
            return try await Child.run(command, allowFailure: true)
        }
        let known = try await status("localhost")
        #expect(known.code == 0 && known.output.hasPrefix("localhost: satisfied"))
        let unknown = try await status("name.invalid")
        let words = [NameLookupFailure.notFound, .noAnswer, .refused].map { "name.invalid: unsatisfied: \($0)" }
        #expect(unknown.code == 1 && words.contains(unknown.output), "\(unknown.output)")
    }

    /// Each way in which programs change a file: the name of the test's case, the path that is reported, and the change.
    private static let changes: [(name: String, path: String, change: @Sendable (ResolverFolder) async throws -> Void)] = [
        ("rename", "/etc/resolv.conf", { try $0.write($0.working, to: "etc/resolv.conf", isAtomic: true) }),
        ("in place", "/etc/resolv.conf", { try $0.write($0.working, to: "etc/resolv.conf") }),
        ("another target", "/etc/resolv.conf", { try await $0.link("etc/resolv.conf", to: "stub/working.conf") }),
        ("target by rename", "/etc/resolv.conf", { try $0.write($0.working, to: "stub/resolv.conf", isAtomic: true) }),
        ("target in place", "/etc/resolv.conf", { try $0.write($0.working, to: "stub/resolv.conf") }),
        ("target that came", "/etc/resolv.conf", { try $0.write($0.working, to: "late/deep/resolv.conf") }),
        ("bind mount", "/etc/resolv.conf", { try $0.write($0.working, to: "stub/mounted.conf") }),
        ("hosts", "/etc/hosts", { try $0.write("192.0.2.7 nas.example", to: "etc/hosts", isAtomic: true) }),
        ("nsswitch", "/etc/nsswitch.conf", { try $0.write("hosts: files dns", to: "etc/nsswitch.conf") }),
    ]

    @Test(arguments: changes.map(\.name)) func hostIsFoundWhenAFileIsMended(name: String) async throws {
        try await findHost(when: name)
    }

    /// Without events of the network there is no watch of files either: each poll looks at them.
    @Test(arguments: [Sandbox.noMulticast, .noNetlink]) func hostIsFoundWhilePolling(sandbox: Sandbox) async throws {
        try await findHost(when: "rename", in: sandbox)
    }

    private func findHost(when name: String, in sandbox: Sandbox? = nil) async throws {
        let (_, path, change) = try #require(Self.changes.first { $0.name == name })
        let network = try await CabledNetwork()
        try await network.stopAddressGeneration()
        try await network.addIPv4()
        let server = try await NameServer.start(at: "192.0.2.10", in: network.near, finding: "192.0.2.7")
        defer { server.stop() }
        server.begin()
        let folder = try await ResolverFolder()
        switch name {
        case "another target", "target by rename", "target in place":
            try await folder.link("etc/resolv.conf", to: "stub/resolv.conf")
        case "target that came": try await folder.link("etc/resolv.conf", to: "late/deep/resolv.conf")
        case "nsswitch":
            try folder.write(folder.working, to: "etc/resolv.conf")
            try folder.write("hosts: files", to: "etc/nsswitch.conf")
        default: break
        }
        let script = """
            mount --bind "$0/etc" /etc || exit
            if [ "$1" = "bind mount" ]; then mount --bind "$0/stub/mounted.conf" /etc/resolv.conf || exit; fi
            shift && exec "$@"
            """
        let watch = WatchCommand(
            try Child(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, folder.path, name, WatchCommand.path]
                    + ["watch", "--format", "json", "--raw", "--netns", network.near.name, "--to", "nas.example"], in: sandbox))
        let baseline = try await watch.next()
        #expect(baseline.event == "baseline" && baseline.path.reason == "unresolved")
        let line = try await watch.expect("satisfied", after: { try await change(folder) })
        #expect(line.cause?.kind == "hostLookedUp")
        #expect(line.cause?.detail == "nas.example has the address 192.0.2.7, after \(path) changed")
    }

    @Test func unrelatedFilesCauseNoDelivery() async throws {
        let namespace = try await Namespace()
        let folder = try await ResolverFolder()
        let kernel = KernelNetwork(
            networkNamespace: namespace.path, receiveBuffer: KernelNetwork.receiveBuffer, resolverRoot: folder.path)
        let (batches, running) = kernel.deliveries()
        var iterator = batches.makeAsyncIterator()
        _ = await iterator.next(isolation: #isolation)
        kernel.resolve("localhost")
        #expect(await iterator.next(isolation: #isolation)?.events.count == 1, "the answer")
        // The files are watched after that delivery, so before the next one.
        kernel.wake()
        #expect(await iterator.next(isolation: #isolation)?.events == [])
        for number in 0..<100 {
            try folder.write("new", to: "etc/file\(number)")
            try folder.write("renamed", to: "etc/file\(number)", isAtomic: true)
            try FileManager.default.removeItem(atPath: "\(folder.path)/etc/file\(number)")
        }
        try folder.write("192.0.2.7 nas.example", to: "etc/hosts")
        #expect(await iterator.next(isolation: #isolation)?.events == [.resolverChanged(file: "/etc/hosts")])
        running.cancel()
        _ = await running.result
    }
}

/// A copy of this machine's /etc, as far as names need it, with a name server that refuses.
private final class ResolverFolder: Sendable {
    private let folder: TemporaryFolder
    var path: String { folder.path }
    /// The name server of the tests.
    let working = "nameserver 192.0.2.10"

    init() async throws {
        folder = try TemporaryFolder()
        try folder.makeFolder("etc")
        try await Child.run(["sh", "-c", "cp -a /etc/ld.so.* /etc/passwd /etc/group /etc/nsswitch.conf \(path)/etc"])
        try write("127.0.0.1 localhost", to: "etc/hosts")
        for file in ["etc/resolv.conf", "stub/resolv.conf", "stub/mounted.conf"] { try write("nameserver 127.0.0.9", to: file) }
        try write(working, to: "stub/working.conf")
    }

    /// Writes a line into the file, or into a new one that replaces it.
    func write(_ line: String, to file: String, isAtomic: Bool = false) throws {
        try folder.write(line + "\n", to: isAtomic ? file + ".new" : file)
        if isAtomic { try #require(rename("\(path)/\(file).new", "\(path)/\(file)") == 0) }
    }

    /// Replaces a file by a symbolic link.
    func link(_ file: String, to target: String) async throws {
        try await Child.run(["ln", "-sfn", "\(path)/\(target)", "\(path)/\(file)"])
    }
}
