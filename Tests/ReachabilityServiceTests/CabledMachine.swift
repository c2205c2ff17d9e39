#if SQLite
import Foundation
import TestSupport
import Testing

/// A network namespace with a cable from `eth0` to `far0`.
final class CabledMachine: Sendable {
    let name = "reach-service-\(getpid())-\(UInt16.random(in: 0 ... .max))"

    init() throws {
        try Self.ip("netns", "add", name)
        for line in [
            "link set lo up", "link add eth0 type veth peer name far0", "link set eth0 up", "link set far0 up",
            "addr add 192.0.2.10/24 dev eth0", "route add default via 192.0.2.1",
        ] { try ip(line) }
    }

    deinit { try? Self.ip("netns", "del", name) }

    func ip(_ line: String) throws { try Self.ip(["-n", name] + line.split(separator: " ").map(String.init)) }

    /// Runs lines of ip(8).
    func run(_ lines: String) throws { try Self.ip(["-n", name, "-batch", "-"], input: lines) }

    private static func ip(_ words: String...) throws { try ip(words) }

    /// Runs ip(8) with words; needs root.
    static func ip(_ words: [String], input: String = "") throws { try Process(["ip"] + words).succeed(input: input) }
}
#endif
