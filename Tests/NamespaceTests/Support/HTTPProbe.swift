import Foundation
import MisbehavingServer
import Reachability

/// Who makes requests.
enum HTTPClientKind: String, Sendable, CaseIterable {
    case urlSession
    #if AsyncHTTPClient
    case asyncHTTPClient
    #endif
}

/// Requests from within a machine to a server at the other end of its first cable.
extension CabledNetwork {
    /// A machine that is online, with an address of the far end's at the other side of the cable.
    static func withFarEnd() async throws -> CabledNetwork {
        let network = try await online()
        try await network.far.ip("addr add 192.0.2.1/24 dev remote0")
        return network
    }

    /// Starts a server at the far end.
    func serve(
        progress: @escaping @Sendable (Request, Int) -> Void = { _, _ in }, _ answer: @escaping @Sendable (Request) -> Reply
    ) throws -> MisbehavingServer {
        let path = far.path
        return try MisbehavingServer(
            at: "192.0.2.1", port: 80, prepare: { try enterNetworkNamespace(path) }, progress: progress, answer: answer)
    }

    /// Starts a request in the machine; it writes a line for each thing that happens.
    ///
    /// Names are looked up at an address on the cable that nobody has: that takes a second, and finds nothing.
    func request(
        _ kind: String, by client: HTTPClientKind = .urlSession, _ host: String = "192.0.2.1", lookupTimeout: Int = 1,
        _ options: String...
    ) throws -> Child {
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let probe = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("http-probe").path
        // ip-netns(8) gives the command a mount namespace of its own, so that nobody else sees this file there.
        let servers = marker("resolv.conf")
        try "nameserver 192.0.2.53\noptions timeout:\(lookupTimeout) attempts:1\n".write(
            toFile: servers, atomically: true, encoding: .utf8)
        let script = #"mount --bind "$0" /etc/resolv.conf && rm "$0" && exec "$@""#
        return try Child(
            [
                "ip", "netns", "exec", near.name, "sh", "-c", script, servers, probe, kind, "http://\(host)/", "--client",
                client.rawValue,
            ] + options)
    }
}

extension Child {
    /// All that it writes until its end.
    func story() async -> [String] {
        var told: [String] = []
        for await line in lines { told.append(line) }
        return told
    }
}
