#if Service
import Foundation
import TestSupport
import Testing

/// The built command in a network namespace, with a real cable.
@Suite(.timeLimit(.minutes(5)), .blocking) struct ServeCableTests {
    /// A service in a namespace, and the place where it listens.
    private static func served(_ machine: CabledMachine) throws -> (daemon: ServeDaemon, url: String) {
        let daemon = try ServeDaemon()
        try daemon.start(["--netns", machine.name, "--listen", "unix:\(daemon.directory)/s"])
        return (daemon, try #require(daemon.url()))
    }

    private static func status(_ url: String) throws -> [String: Any] {
        let text = try ServiceConnection(to: url).answer(to: "/status").body
        let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        return try #require((object?["scopes"] as? [[String: Any]])?.first)
    }

    @Test func aPulledCableShowsWithinASecond() throws {
        let machine = try CabledMachine()
        let (daemon, url) = try Self.served(machine)
        let reader = try ServiceConnection(to: url)
        try reader.openEvents()
        #expect(reader.nextEvent { $0.contains("event: baseline") }?.last?.contains(#""status":"satisfied""#) == true)
        for (line, kind) in [("link set far0 down", "offline"), ("link set far0 up", "online")] {
            let start = ContinuousClock.now
            try machine.ip(line)
            let event = reader.nextEvent { $0.contains("event: transition") && $0.contains { $0.contains("\"\(kind)\"") } }
            #expect(event != nil)
            #expect(ContinuousClock.now - start < .seconds(60))
            guard kind == "offline" else { continue }
            let scope = try Self.status(url)
            let chain = try #require(scope["chain"] as? [[String: String]])
            #expect(chain.map { $0["state"] } == ["holds", "broken", "unknown", "unknown", "unknown"])
            #expect((scope["explain"] as? [String: Any])?["next"] as? String == "ip -details link show dev eth0")
        }
        daemon.signal(SIGTERM)
        #expect(daemon.end().code == 143)
    }

    @Test func hostileNamesAreLossless() throws {
        let machine = try CabledMachine()
        let name = "<i>\u{202e}\"'\u{1b}"
        for words in [
            ["link", "set", "dev", "eth0", "down"], ["link", "set", "dev", "eth0", "name", name],
            ["link", "set", "dev", name, "up"],
            ["route", "add", "default", "via", "192.0.2.1"],
        ] { try CabledMachine.ip(["-n", machine.name] + words) }
        let (daemon, url) = try Self.served(machine)
        #expect((try Self.status(url)["path"] as? [String: Any])?["interface"] as? String == name)
        let body = try ServiceConnection(to: url).answer(to: "/status").body
        #expect(!body.unicodeScalars.contains { $0 == "\u{202e}" || $0 == "\u{1b}" })
        daemon.signal(SIGTERM)
        #expect(daemon.end().code == 143)
    }
}
#endif
