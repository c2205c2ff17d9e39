#if Service
import Foundation
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import reachability_service

/// A real server on a simulated network.
@Suite(.timeLimit(.minutes(5)), .blocking) struct HTTPServiceTests {
    private static func object(_ text: String) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    private static func places() -> [String] {
        ["127.0.0.1:0", "[::1]:0", "unix:/tmp/reachability-serve-test-\(getpid())-\(UInt32.random(in: 0 ... .max)).sock"]
    }

    @Test func pageHasTheWordsOfEachReason() throws {
        let file = try #require(PageFile.all.first { $0.path == "/text.js" })
        let text = String(decoding: file.bytes, as: UTF8.self)
        for reason in OfflineReason.all {
            #expect(text.contains("\n  \(reason.rawValue): \"\(reason)\",\n"), "\(reason.rawValue)")
        }
    }

    @Test(arguments: places()) func everyEndpointAnswers(place: String) async throws {
        try await ServedNetwork.serving(listen: place) { served in
            let connection = try served.connect()
            for (path, type) in [
                ("/", "text/html; charset=utf-8"), ("/page.js", "text/javascript; charset=utf-8"),
                ("/page.css", "text/css; charset=utf-8"), ("/icon.svg", "image/svg+xml"), ("/status", "application/json"),
                ("/history", "application/json"), ("/history?hours=720", "application/json"),
                ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
            ] {
                let answer = try connection.answer(to: path)
                #expect(answer.status == 200 && answer.headers["content-type"] == type && !answer.body.isEmpty, "\(path)")
                #expect(answer.headers["content-security-policy"]?.hasPrefix("default-src 'none'; script-src 'self'") == true)
                #expect(answer.headers["x-content-type-options"] == "nosniff" && answer.headers["cache-control"] == "no-store")
                #expect(answer.headers["access-control-allow-origin"] == nil)
                let head = try connection.answer(to: path, method: "HEAD")
                #expect(head.status == 200 && head.headers["content-length"] == "\(answer.body.utf8.count)", "\(path)")
            }
            for (path, status) in [
                ("/nothing", 404), ("/../etc/passwd", 404), ("/%2e%2e/status", 404), ("/history?hours=0", 400),
                ("/history?hours=721", 400), ("/history?hours=x", 400),
            ] {
                #expect(try connection.answer(to: path).status == status, "\(path)")
            }
            for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"] {
                let answer = try connection.answer(to: "/status", method: method)
                #expect(answer.status == 405 && answer.headers["allow"] == "GET, HEAD" && answer.body.isEmpty, "\(method)")
            }
        }
    }

    @Test func statusShowsTheEvidence() async throws {
        try await ServedNetwork.serving(scopes: [.internet, .host("nas.local")]) { served in
            try served.network.setHost("nas.local", to: "192.0.2.7")
            let reader = try served.connect()
            try reader.openEvents()
            try served.pull()
            // A task tells the page.
            _ = reader.nextEvent { event in
                event.contains { $0.contains(#""kinds":["offline"]"#) && $0.contains(#""scope":"internet""#) }
            }
            let connection = try served.connect()
            let status = try Self.object(connection.answer(to: "/status").body)
            let scopes = try #require(status["scopes"] as? [[String: Any]])
            #expect(scopes.map { $0["scope"] as? String } == ["internet", "nas.local"])
            #expect((scopes[0]["path"] as? [String: Any])?["status"] as? String == "unsatisfied")
            #expect((scopes[0]["path"] as? [String: Any])?["reason"] as? String == "noCarrier")
            let chain = try #require(scopes[0]["chain"] as? [[String: Any]])
            #expect(chain.first { $0["state"] as? String == "broken" }?["link"] as? String == "carrier")
            let explanation = try #require(scopes[0]["explain"] as? [String: Any])
            #expect(explanation["next"] as? String == "ip -details link show dev eth0")
            #expect((status["health"] as? [String: Any])?["mode"] as? String == "live")
            #expect(status["queue"] is NSNull)
        }
    }

    @Test func historyHasTheSpans() async throws {
        try await ServedNetwork.serving { served in
            served.network.clock.advance(by: .seconds(60))
            let connection = try served.connect()
            try connection.openEvents()
            _ = connection.nextEvent { $0.contains("event: baseline") }
            try served.pull()
            _ = connection.nextEvent { $0.contains("event: transition") }
            served.network.clock.advance(by: .seconds(30))
            // The recorder is told after the readers.
            var spans: [[String: Any]] = []
            while spans.count < 3 {
                let history = try Self.object(served.connect().answer(to: "/history?hours=1").body)
                spans = ((history["scopes"] as? [[String: Any]])?.first?["spans"] as? [[String: Any]]) ?? []
            }
            #expect(spans.map { $0["status"] as? String } == ["unknown", "satisfied", "unsatisfied"])
            #expect(spans[2]["reason"] as? String == "noCarrier" && spans[1]["interface"] as? String == "eth0")
        }
    }

    @Test(arguments: places()) func aTransitionReachesTheStream(place: String) async throws {
        try await ServedNetwork.serving(listen: place) { served in
            let connection = try served.connect()
            try connection.openEvents()
            let baseline = try #require(connection.nextEvent { $0.contains("event: baseline") })
            #expect(baseline.contains { $0.contains(#""status":"satisfied""#) })
            let start = ContinuousClock.now
            try served.pull()
            let change = try #require(connection.nextEvent { $0.contains("event: transition") })
            #expect(ContinuousClock.now - start < .seconds(60))
            #expect(change.contains { $0.contains(#""kinds":["offline"]"#) })
            // A reader that comes back gets what it has missed, and no baseline.
            let id = try #require(change.first { $0.hasPrefix("id: ") }).dropFirst(4)
            try served.plug()
            let again = try served.connect()
            try again.openEvents(after: String(id))
            let next = try #require(again.nextEvent { $0.contains { $0.hasPrefix("event: ") } })
            #expect(next.contains("event: transition") && next.contains { $0.contains(#""kinds":["online"]"#) })
            let stranger = try served.connect()
            try stranger.openEvents(after: "another-run-7")
            #expect(stranger.nextEvent { $0.contains { $0.hasPrefix("event: ") } }?.contains("event: baseline") == true)
        }
    }

    @Test(arguments: [
        ["Host: evil.example"], [], ["Host: localhost", "Host: evil.example"], ["Host: localhost", "Host: localhost"],
        ["Host: localhost:8787", "Origin: http://evil.example"], ["Host: localhost", "Origin: null"],
        ["Host: localhost", "Origin: http://localhost", "Origin: http://evil.example"],
        ["Host: localhost", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], ["Host: localhost.evil.example"],
    ])
    func strangersGetNothing(headers: [String]) async throws {
        try await ServedNetwork.serving { served in
            for path in ["/", "/status", "/events", "/metrics", "/page.js", "/nothing"] {
                let connection = try served.connect()
                connection.send("GET \(path) HTTP/1.1\r\n" + headers.map { $0 + "\r\n" }.joined() + "\r\n")
                let answer = try connection.readAnswer()
                #expect(answer.map { [400, 403, 421].contains($0.status) && $0.body.isEmpty } ?? true, "\(path)")
                #expect(answer?.headers["access-control-allow-origin"] == nil)
            }
        }
    }

    @Test func tooManyReadersAreToldToWait() async throws {
        try await ServedNetwork.serving(maxReaders: 2) { served in
            let readers = try (0..<2).map { _ in try served.connect() }
            for reader in readers { try reader.openEvents() }
            let answer = try served.connect().answer(to: "/events")
            #expect(answer.status == 503 && answer.headers["retry-after"] == "10")
            #expect(try served.connect().answer(to: "/status").status == 200)
        }
    }

    @Test func theEndClosesStreams() async throws {
        try await ServedNetwork.serving { served in
            let connection = try served.connect()
            try connection.openEvents()
            _ = connection.nextEvent { $0.contains("event: baseline") }
            let start = ContinuousClock.now
            served.stop()
            #expect(connection.awaitEnd())
            #expect(ContinuousClock.now - start < .seconds(60))
        }
    }
}
#endif
