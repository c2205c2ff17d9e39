import Foundation
import Glibc
import Reachability
import Testing

/// The command without /proc, and without answering name servers.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct ShortageTests {
    @Test(arguments: [
        ["watch", "--count", "1"], ["status"], ["wait", "--timeout", "100ms"], ["explain"], ["run", "--", "true"],
        ["record", "-", "--for", "10ms"], ["replay", "/dev/null"], ["--help"],
    ])
    func commandsReportMissingProc(_ arguments: [String]) async throws {
        // Mounted over /proc: a user namespace cannot unmount inherited mounts (mount_namespaces(7)).
        let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\""
        let result = try await Child.run(
            ["unshare", "--mount", "sh", "-c", script, WatchCommand.path] + arguments, allowFailure: true)
        #expect(result.code == 69)
        #expect(result.output.contains("/proc is not mounted") && result.output.contains("next: mount"), "\(result.output)")
    }

    @Test(arguments: [
        (["status", "--timeout", "300ms", "--to", "nas.example"], 1, "nas.example: unsatisfied: no name server answered"),
        (["explain", "--timeout", "300ms", "--to", "nas.example"], 1, "next:    cat /etc/resolv.conf; getent ahosts nas.example"),
        (["wait", "--timeout", "300ms", "--verbose", "--to", "nas.example"], 1, "timed out: nas.example"),
        (["status", "--timeout", "300ms", "--to", "nas.example", "--to", "192.0.2.1"], 1, "192.0.2.1: satisfied via cable0"),
    ])
    func timeLimitHoldsWithSilentNameServer(_ arguments: [String], _ code: Int32, _ words: String) async throws {
        let network = try await CabledNetwork.online()
        // A permanent neighbour entry: queries leave, and no answer or refusal returns.
        try await network.near.ip("neigh replace 192.0.2.53 lladdr 02:00:00:00:00:53 dev cable0 nud permanent")
        let folder = "/etc/netns/\(network.near.name)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        // ip-netns(8) mounts it over /etc/resolv.conf.
        try Data("nameserver 192.0.2.53\noptions timeout:30 attempts:5\n".utf8).write(
            to: URL(fileURLWithPath: "\(folder)/resolv.conf"))
        let clock = ContinuousClock()
        let start = clock.now
        let result = try await Child.run(
            ["ip", "netns", "exec", network.near.name, WatchCommand.path] + arguments, allowFailure: true)
        let took = clock.now - start
        #expect(result.code == code && result.output.contains(words), "\(result)")
        // The resolver needs 150 s (resolv.conf(5): five attempts of 30 s).
        #expect(took < .seconds(75), "it took \(took)")
    }
}
