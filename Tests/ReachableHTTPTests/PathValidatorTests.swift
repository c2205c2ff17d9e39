import Foundation
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableHTTP
import Testing

/// Validations by a real server, which may be a portal.
@Suite(.timeLimit(.minutes(20))) struct PathValidatorTests {
    /// Runs a body with a server and its URL.
    private func withServer(
        _ answer: @escaping @Sendable (Request) -> Reply, _ body: (MisbehavingServer, URL) async throws -> Void
    ) async throws {
        let server = try MisbehavingServer(answer: answer)
        defer { server.stop() }
        try await body(server, try #require(URL(string: "http://127.0.0.1:\(server.port)/check")))
    }

    /// A validator that tolerates a slow machine.
    private func validator(_ url: URL, status: Int? = nil, body: String? = nil) -> HTTPPathValidator {
        HTTPPathValidator(url: url, expectedStatus: status, expectedBody: body, timeout: .seconds(3600))
    }

    private func validate(_ url: URL, status: Int? = nil, body: String? = nil) async throws -> PathValidation {
        try await validator(url, status: status, body: body).validate(.unknown)
    }

    @Test func expectedAnswerValidates() async throws {
        try await withServer {
            $0.number == 1 ? .respond(204, ["Set-Cookie": "a=b", "Cache-Control": "max-age=3600"]) : .respond(200, [:], "ok\n")
        } _: { server, url in
            let byStatus = try await validate(url)
            let byBody = try await validate(url, body: "ok")
            let byBoth = try await validate(url, status: 200, body: " ok")
            #expect(byStatus == .validated && byBody == .validated && byBoth == .validated)
            let requests = server.requests
            #expect(requests.map(\.method) == ["GET", "GET", "GET"] && requests.allSatisfy { $0.path == "/check" })
            #expect(requests.allSatisfy { $0.headers["cookie"] == nil && $0.headers["cache-control"] == "no-cache" })
            #expect(requests.allSatisfy { $0.headers["accept-encoding"] == "identity" })
        }
    }

    @Test(arguments: [
        ("http://portal.example/login?from=x", "http://portal.example/login?from=x"), ("/login", "BASE/login"),
        ("//portal.example/", "http://portal.example/"), ("javascript:alert(1)", "BASE/check"), ("", "BASE/check"),
    ])
    func redirectIsPortalAndNotFollowed(_ location: String, _ page: String) async throws {
        for status in [301, 302, 303, 307, 308] {
            try await withServer { _ in
                .respond(status, ["Location": location], "moved")
            } _: { server, url in
                let page = page.replacing("BASE", with: "http://127.0.0.1:\(server.port)")
                let finding = try await validate(url)
                #expect(finding == .captivePortal(page), "\(status)")
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test func redirectCanBeExpected() async throws {
        try await withServer { _ in
            .respond(302, ["Location": "http://elsewhere.example/"], "moved")
        } _: { server, url in
            let findings = [try await validate(url, status: 302), try await validate(url, status: 302, body: "ok")]
            #expect(findings == [.validated, .validated] && server.requests.count == 2)
        }
    }

    @Test func unexpectedBodyIsPortal() async throws {
        let replies: [Reply] = [
            .respond(200, [:], "<html>"), .respond(200), .respond(204), .respond(511, [:], "<html>"),
            .stopShort(200, [:], body: Array(repeating: 0, count: 1 << 20), after: 4096),
        ]
        for reply in replies {
            try await withServer { _ in
                reply
            } _: { _, url in
                let finding = try await validate(url, body: "ok")
                #expect(finding == .captivePortal(url.absoluteString), "\(reply)")
            }
        }
        try await withServer { _ in
            .respond(200, [:], "<html>")
        } _: { _, url in
            let finding = try await validate(url)
            #expect(finding == .captivePortal(url.absoluteString), "204 was expected")
        }
    }

    @Test func informationIsNoAnswer() async throws {
        let answer = "HTTP/1.1 103 -\r\nLink: </a.css>\r\n\r\nHTTP/1.1 204 -\r\n\r\n"
        try await withServer { _ in
            .raw(Array(answer.utf8))
        } _: { _, url in
            let finding = try await validate(url)
            #expect(finding == .validated)
        }
    }

    @Test func errorOrSilenceFails() async throws {
        try await withServer {
            $0.number == 1 ? .respond(503, [:], "busy") : .reset
        } _: { _, url in
            let busy = try await validate(url)
            #expect(busy == .failed("\(url) answered with status 503"))
            guard case .failed(let reason) = try await validate(url) else {
                Issue.record("there was no response")
                return
            }
            #expect(reason.hasPrefix("no response from \(url): ") && reason.contains("URLError"))
        }
        let file = try #require(URL(string: "file:///etc/hostname"))
        let finding = try await validate(file)
        #expect(finding == .failed("file:///etc/hostname is no URL of HTTP"))
    }

    @Test func cancellationEndsRequest() async throws {
        try await withServer { _ in
            .stall
        } _: { server, url in
            let validating = Task { try await validate(url) }
            try await server.untilRequests(1)
            validating.cancel()
            await #expect(throws: CancellationError.self) { try await validating.value }
        }
    }

    /// Runs a body with a monitor of a simulated network whose validator uses a real server.
    private func withMonitor(
        _ url: URL, _ body: (ReachabilityMonitor, ManualClock, inout AsyncStream<Transition>.AsyncIterator) async throws -> Void
    ) async throws {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.validator = validator(url)
        let clock = ManualClock()
        let monitor = ReachabilityMonitor(SimulatedNetwork.online(clock: clock), configuration: configuration)
        var transitions = monitor.transitions.makeAsyncIterator()
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        #expect(await transitions.next(isolation: #isolation)?.isBaseline == true)
        try await body(monitor, clock, &transitions)
    }

    @Test func monitorSeesPortalOpen() async throws {
        try await withServer {
            $0.number == 1 ? .respond(302, ["Location": "http://portal.example/"]) : .respond(204)
        } _: { server, url in
            try await withMonitor(url) { monitor, clock, transitions in
                let portal = await transitions.next(isolation: #isolation)?.current.validation
                #expect(portal == .captivePortal("http://portal.example/"))
                clock.advance(by: .seconds(1))
                let opened = await transitions.next(isolation: #isolation)?.current.validation
                #expect(opened == .validated && monitor.validatedCondition.state.isSatisfied && server.requests.count == 2)
            }
        }
    }

    @Test func silentServerFailsAfterTimeout() async throws {
        try await withServer {
            $0.number == 1 ? .stall : .respond(204)
        } _: { server, url in
            try await withMonitor(url) { monitor, clock, transitions in
                try await server.untilRequests(1)
                clock.advance(by: .seconds(10))
                let failed = await transitions.next(isolation: #isolation)?.current.validation
                #expect(failed == .failed("no answer within 10.0 seconds"))
                let finding = try await monitor.validate()
                #expect(finding == .validated && server.requests.count == 2, "the hanging request was cancelled")
            }
        }
    }
}
