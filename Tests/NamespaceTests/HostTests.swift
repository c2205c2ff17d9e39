import Reachability
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
}
