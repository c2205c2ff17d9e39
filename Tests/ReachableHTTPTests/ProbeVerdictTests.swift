import Reachability
import Testing

@testable import ReachableHTTP

@Suite struct ProbeVerdictTests {
    private static let url = "http://probe.example/check"

    private func verdict(_ status: Int = 200, _ body: String? = "ok") -> ProbeVerdict {
        ProbeVerdict(url: Self.url, status: status, body: body.map { ProbeVerdict.trimmed($0.utf8) })
    }

    /// A verdict after the expected head.
    private func begun(_ body: String = "ok") -> ProbeVerdict {
        var verdict = verdict(200, body)
        #expect(verdict.begin(status: 200, location: nil) == nil)
        return verdict
    }

    private func begin(_ verdict: ProbeVerdict, _ status: Int, _ location: String?) -> PathValidation? {
        var verdict = verdict
        return verdict.begin(status: status, location: location)
    }

    @Test(
        arguments: [
            (302, "http://portal.example/", PathValidation.captivePortal("http://portal.example/")),
            (307, nil, .captivePortal(url)), (304, nil, .captivePortal(url)), (204, nil, .captivePortal(url)),
            (203, "http://elsewhere.example/", .captivePortal(url)), (511, nil, .captivePortal(url)),
            (404, nil, .failed("\(url) answered with status 404")), (500, nil, .failed("\(url) answered with status 500")),
            (-1, nil, .failed("\(url) answered with status -1")),
        ] as [(Int, String?, PathValidation)])
    func unexpectedStatusDecidesWithoutBody(_ status: Int, _ location: String?, _ finding: PathValidation) {
        for other in [verdict(), verdict(418, nil)] { #expect(begin(other, status, location) == finding) }
    }

    @Test func expectedStatusWaitsForBody() {
        #expect(begin(verdict(204, nil), 204, nil) == .validated)
        #expect(begin(verdict(), 200, nil) == nil)
    }

    @Test func expectedRedirectIgnoresBody() {
        for body in [nil, "ok"] { #expect(begin(verdict(302, body), 302, "http://portal.example/") == .validated) }
    }

    @Test func responseWithoutHeadFails() {
        for verdict in [verdict(200, nil), verdict(200, "")] {
            #expect(verdict.end() == .failed("\(Self.url) sent no response of HTTP"))
        }
    }

    @Test(arguments: [
        ("ok", true), (" \r\nok\n", true), ("o", false), ("", false), ("OK", false), ("okay", false), ("o k", false),
    ])
    func bodyIsComparedWithoutSurroundingWhiteSpace(_ body: String, _ isRight: Bool) {
        var verdict = begun()
        for byte in body.utf8 { #expect(verdict.receive([byte]) == nil) }
        #expect(verdict.end() == (isRight ? .validated : .captivePortal(Self.url)))
    }

    @Test func emptyBodyCanBeExpected() {
        #expect(begun("").end() == .validated)
        var other = begun("")
        #expect(other.receive("x".utf8) == nil && other.end() == .captivePortal(Self.url))
    }

    @Test func excessBytesDecideEarly() {
        var verdict = begun()
        #expect(verdict.receive(Array(repeating: 0x20, count: 1024)) == nil && verdict.receive("ok".utf8) == nil)
        #expect(verdict.end() == .validated)
        #expect(verdict.receive("!".utf8) == .captivePortal(Self.url))
        #expect(verdict.receive(Array(repeating: 0, count: 1 << 20)) == .captivePortal(Self.url))
    }
}
