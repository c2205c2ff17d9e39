import Foundation
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableHTTP
import Testing

/// Validations by a real server, which may be a portal.
@Suite(.timeLimit(.minutes(5))) struct PathValidatorTests {
    /// A server and its URL.
    private func withServer(
        _ answer: @escaping @Sendable (Request) -> Reply, _ body: (MisbehavingServer, URL) async throws -> Void
    ) async throws {
        let server = try MisbehavingServer(answer: answer)
        defer { server.stop() }
        try await body(server, try #require(URL(string: "http://127.0.0.1:\(server.port)/check")))
    }

    @Test func theExpectedAnswerValidates() async throws {
        try await withServer {
            $0.number == 1 ? .respond(204, ["Set-Cookie": "a=b", "Cache-Control": "max-age=3600"]) : .respond(200, [:], "ok\n")
        } _: { server, url in
            let byStatus = try await HTTPPathValidator(url: url).validate(.unknown)
            let byBody = try await HTTPPathValidator(url: url, expectedStatus: 200, expectedBody: "ok").validate(.unknown)
            #expect(byStatus == .validated && byBody == .validated)
            let requests = server.requests
            #expect(requests.map(\.method) == ["GET", "GET"] && requests.map(\.path) == ["/check", "/check"])
            #expect(requests.allSatisfy { $0.headers["cookie"] == nil && $0.headers["cache-control"] == "no-cache" })
            #expect(requests.allSatisfy { $0.headers["accept-encoding"] == "identity" })
        }
    }

    @Test(arguments: [
        ("http://portal.example/login?from=x", "http://portal.example/login?from=x"), ("/login", "BASE/login"),
        ("//portal.example/", "http://portal.example/"),
    ])
    func aRedirectIsAPortalAndIsNotFollowed(_ location: String, _ page: String) async throws {
        for status in [301, 302, 303, 307, 308] {
            try await withServer { _ in
                .respond(status, ["Location": location], "moved")
            } _: { server, url in
                let page = page.replacing("BASE", with: "http://127.0.0.1:\(server.port)")
                let finding = try await HTTPPathValidator(url: url).validate(.unknown)
                #expect(finding == .captivePortal(page) && server.requests.count == 1)
            }
        }
    }

    @Test func anotherBodyOrPageIsAPortal() async throws {
        let replies: [Reply] = [
            .respond(200, [:], "<html>"), .respond(200), .respond(204), .respond(511, [:], "<html>"),
            .stopShort(200, [:], body: Array(repeating: 0, count: 1 << 20), after: 4096),
        ]
        for reply in replies {
            try await withServer { _ in
                reply
            } _: { server, url in
                let finding = try await HTTPPathValidator(url: url, expectedStatus: 200, expectedBody: "ok").validate(.unknown)
                #expect(finding == .captivePortal(url.absoluteString))
            }
        }
    }

    @Test func whatSaysNothingHasFailed() async throws {
        try await withServer {
            $0.number == 1 ? .respond(503, [:], "busy") : .reset
        } _: { server, url in
            let busy = try await HTTPPathValidator(url: url).validate(.unknown)
            #expect(busy == .failed("\(url) answered with status 503"))
            guard case .failed(let reason) = try await HTTPPathValidator(url: url).validate(.unknown) else {
                Issue.record("there was no response")
                return
            }
            #expect(reason.hasPrefix("no response from \(url): ") && reason.contains("URLError"))
        }
        let file = try #require(URL(string: "file:///etc/hostname"))
        let finding = try await HTTPPathValidator(url: file).validate(.unknown)
        #expect(finding == .failed("file:///etc/hostname is no URL of HTTP"))
    }

    @Test func whoCancelsEndsTheRequest() async throws {
        try await withServer { _ in
            .stall
        } _: { server, url in
            let validating = Task { try await HTTPPathValidator(url: url).validate(.unknown) }
            while server.requests.isEmpty { await Task.yield() }
            validating.cancel()
            await #expect(throws: CancellationError.self) { try await validating.value }
        }
    }

    @Test func aMonitorSeesThePortalAndThatItOpened() async throws {
        try await withServer {
            $0.number == 1 ? .respond(302, ["Location": "http://portal.example/"]) : .respond(204)
        } _: { server, url in
            var configuration = ReachabilityMonitor.Configuration()
            configuration.validator = HTTPPathValidator(url: url)
            let clock = ManualClock()
            let monitor = ReachabilityMonitor(SimulatedNetwork.online(clock: clock), configuration: configuration)
            var transitions = monitor.transitions.makeAsyncIterator()
            let running = Task { try await monitor.run() }
            _ = await transitions.next()
            #expect(await transitions.next()?.current.validation == .captivePortal("http://portal.example/"))
            clock.advance(by: .seconds(60))
            #expect(await transitions.next()?.current.validation == .validated)
            #expect(monitor.validatedCondition.state.isSatisfied && server.requests.count == 2)
            running.cancel()
            try await running.value
        }
    }
}
