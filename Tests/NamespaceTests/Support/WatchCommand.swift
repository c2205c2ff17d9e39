import Foundation
import Reachability
import TestSupport
import Testing

/// `reachability-watch watch --format json`, running in a namespace.
final class WatchCommand {
    /// A line of the output, as documented in docs/json.md.
    struct Line: Decodable {
        struct Path: Decodable {
            struct Family: Decodable {
                var satisfied: Bool
                var reason: String?
                var interface: String?
                var gateway: String?
            }

            var status: String
            var reason: String?
            var interface: String?
            var ipv4: Family
            var ipv6: Family
        }

        struct Cause: Decodable {
            var kind: String
            var detail: String
        }

        var event: String
        var sequence: Int
        var epoch: Int
        var kinds: [String]
        var path: Path
        var cause: Cause?
    }

    /// The path of the built command, beside the tests.
    static let path = builtProgram("reachability-watch")

    let child: Child
    private var lines: AsyncStream<String>.AsyncIterator

    convenience init(_ network: CabledNetwork, in sandbox: Sandbox? = nil, _ options: String...) throws {
        try self.init(network, in: sandbox, options: options)
    }

    convenience init(_ network: CabledNetwork, in sandbox: Sandbox? = nil, options: [String]) throws {
        self.init(try Child([Self.path, "watch", "--format", "json", "--netns", network.near.name] + options, in: sandbox))
    }

    /// Reads the lines of a started watch.
    init(_ child: Child) {
        self.child = child
        lines = child.lines.makeAsyncIterator()
    }

    func next(_ location: SourceLocation = #_sourceLocation) async throws -> Line {
        let text = try #require(await lines.next(isolation: #isolation), sourceLocation: location)
        return try JSONDecoder().decode(Line.self, from: Data(text.utf8))
    }

    /// Reads lines up to the expected one, and checks that it came in time.
    @discardableResult
    func expect(
        _ status: String, _ reason: String? = nil, within limit: Duration = .seconds(1), after change: () async throws -> Void,
        _ location: SourceLocation = #_sourceLocation
    ) async throws -> Line {
        try await change()
        let clock = ContinuousClock()
        let start = clock.now
        while true {
            let line = try await next(location)
            guard line.path.status == status, line.path.reason == reason else { continue }
            let took = clock.now - start
            #expect(took < limit * Machine.slowness, "it took \(took)", sourceLocation: location)
            return line
        }
    }
}
