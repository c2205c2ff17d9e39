#if Service
import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import reachability_service

/// Clients that mean no good, on a real server.
@Suite(.timeLimit(.minutes(10)), .blocking, .serialized) struct HTTPHostilityTests {
    private static var socket: String { "unix:/tmp/reachability-serve-test-\(getpid())-\(UInt32.random(in: 0 ... .max)).sock" }

    /// The time in which a transition has to reach a reader, whatever the others do.
    ///
    /// Far above the time on a busy machine: a reader that waits for others waits for ever.
    private static let limit = Duration.seconds(60)

    @Test func stuckReadersDelayNobody() async throws {
        try await ServedNetwork.serving(listen: Self.socket) { served in
            // Each asks at once: a connection without a request is closed after 10 s, and 200 may take longer.
            let stuck = try (0..<200).map { _ in
                let connection = try served.connect(receiveBuffer: 4096)
                try connection.openEvents()
                return connection
            }
            let reader = try served.connect()
            try reader.openEvents()
            _ = reader.nextEvent { $0.contains("event: baseline") }
            var (slowest, last) = (Duration.zero, 0)
            // As many as fill the buffers of those that do not read, so that they are cut.
            while await served.session.feed.cutReaders < stuck.count {
                let start = ContinuousClock.now
                if last % 2 == 0 { try served.pull() } else { try served.plug() }
                // Outside of the macro: there the compiler (6.3.1) runs the other closure, for the baseline.
                let transition = reader.nextEvent { $0.contains("event: transition") }
                let event = try #require(transition)
                slowest = max(slowest, ContinuousClock.now - start)
                last += 1
                #expect(event.contains { $0.contains("\"sequence\":\(last),") })
            }
            #expect(slowest < Self.limit, "\(slowest) with \(last) transitions")
            #expect(await served.session.feed.readerCount == 1)
            // The connections of those that were cut have ended.
            for connection in stuck { #expect(connection.awaitEnd()) }
            #expect(try served.connect().answer(to: "/metrics").body.contains("reachability_service_slow_readers_total 200\n"))
        }
    }

    @Test func malformedRequestsEndWithTheirConnections() async throws {
        var random = SeededGenerator(seed: 7)
        let pieces = [
            "GET", "POST", " ", "/", "/status", "/events", "HTTP/1.1", "HTTP/9.9", "\r\n", "\n", "\r", "\0", ":", "Host: localhost",
            "Host:", "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: ", "0\r\n\r\n", "ffffffffffffffff\r\n", "\u{202e}", "é", "%00", "%zz", "?hours=", "#", "http://",
            "[::",
            "Connection: close", "Upgrade: h2c", "Last-Event-ID: ", "\u{1b}[31m", " HTTP/1.1\r\nHost: localhost\r\n\r\n", "*",
            "PRI",
        ]
        try await ServedNetwork.serving { served in
            let reader = try served.connect()
            try reader.openEvents()
            _ = reader.nextEvent { $0.contains("event: baseline") }
            for number in 0..<10_000 {
                var bytes: [UInt8] = []
                for _ in 0..<Int.random(in: 1...12, using: &random) {
                    if Int.random(in: 0..<4, using: &random) == 0 {
                        bytes += (0..<Int.random(in: 1...20, using: &random)).map { _ in .random(in: 0 ... .max, using: &random) }
                    } else {
                        bytes += Array((pieces.randomElement(using: &random) ?? "").utf8)
                    }
                }
                let connection = try served.connect()
                connection.send(bytes)
                guard number % 1000 == 0 else { continue }
                #expect(try served.connect().answer(to: "/status").status == 200, "after \(number)")
            }
            let start = ContinuousClock.now
            try served.pull()
            #expect(reader.nextEvent { $0.contains("event: transition") } != nil)
            #expect(ContinuousClock.now - start < Self.limit)
        }
    }

    @Test(arguments: [
        "X: " + String(repeating: "x", count: 250 * 1024), (0..<2000).map { "X-\($0): y" }.joined(separator: "\r\n"),
        "Cookie: " + String(repeating: "a=b; ", count: 50_000), String(repeating: "y", count: 250 * 1024) + ": x",
    ])
    func largeHeadersAreRefusedAtOnce(header: String) async throws {
        try await ServedNetwork.serving { served in
            let start = ContinuousClock.now
            let connection = try served.connect()
            connection.send("GET /status HTTP/1.1\r\nHost: localhost\r\n\(header)\r\n\r\n")
            let answer = try connection.readAnswer()
            #expect(answer.map { $0.status == 400 || $0.status == 431 } ?? true)
            #expect(connection.awaitEnd())
            #expect(ContinuousClock.now - start < Self.limit)
            #expect(try served.connect().answer(to: "/status").status == 200)
        }
    }

    @Test func aLongTargetIsRefused() async throws {
        try await ServedNetwork.serving { served in
            let connection = try served.connect()
            connection.send("GET /\(String(repeating: "a", count: 250 * 1024)) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try connection.readAnswer().map { $0.status >= 400 } ?? true)
            #expect(try served.connect().answer(to: "/status").status == 200)
        }
    }

    @Test func bodiesAreNotRead() async throws {
        try await ServedNetwork.serving { served in
            for header in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
                let connection = try served.connect()
                connection.request("/status", method: "GET", headers: [header])
                let chunk = "8000\r\n" + String(repeating: "z", count: 0x8000) + "\r\n"
                // More than the buffers of both sides.
                #expect((0..<1000).contains { _ in !connection.send(chunk) })
            }
            #expect(try served.connect().answer(to: "/status").status == 200)
        }
    }

    @Test func connectionsWithoutARequestMakeRoom() async throws {
        try await ServedNetwork.serving(maxConnections: 8, maxReaders: 6) { served in
            let reader = try served.connect()
            try reader.openEvents()
            _ = reader.nextEvent { $0.contains("event: baseline") }
            // Idle ones, and heads that do not end.
            let idle = try (0..<100).map { number in
                let connection = try served.connect()
                if number % 2 == 0 { connection.send("GET /status HTTP/1.1\r\nHost: loc") }
                return connection
            }
            let start = ContinuousClock.now
            #expect(try served.connect().answer(to: "/status").status == 200)
            #expect(ContinuousClock.now - start < Self.limit)
            // The oldest had to go, and the one that is being answered stayed.
            #expect(idle[0].awaitEnd())
            try served.pull()
            #expect(reader.nextEvent { $0.contains("event: transition") } != nil)
            withExtendedLifetime(idle) {}
        }
    }

    @Test func trickledHeadersAreCutOff() async throws {
        try await ServedNetwork.serving { served in
            let connection = try served.connect()
            connection.send("GET /status HTTP/1.1\r\nHost: localhost\r\nX: ")
            let start = ContinuousClock.now
            // A byte now and then keeps no connection open: only whole requests count.
            while connection.send("x"), ContinuousClock.now - start < .seconds(120) { connection.pause() }
            let took = ContinuousClock.now - start
            #expect(took < .seconds(60), "\(took)")
        }
    }

    @Test func hostileNamesStayText() async throws {
        let network = SimulatedNetwork.online()
        let name = "<b>\"'&\u{202e}\\x"
        try network.rename("eth0", to: name)
        try await ServedNetwork.serving(network) { served in
            let connection = try served.connect()
            let status = try connection.answer(to: "/status").body
            #expect(status.contains(#"<b>\"'&\u202e\\x"#) && !status.contains("\u{202e}"))
            #expect(!(try connection.answer(to: "/metrics").body.contains("<b>")))
            #expect(!(try connection.answer(to: "/").body.contains("<b>\"")))
        }
    }
}

extension ServiceConnection {
    /// Waits a tenth of a second for bytes that do not come.
    fileprivate func pause() {
        var nothing = pollfd(fd: -1, events: 0, revents: 0)
        _ = poll(&nothing, 1, 100)
    }
}
#endif
