import CommandKit
import Testing

@testable import reachability_service

struct RequestGuardTests {
    @Test(arguments: [
        "localhost", "localhost:8787", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8787", "127.1.2.3:80", "[::1]", "[::1]:8787",
    ])
    func loopbackNamesAreAnswered(host: String) {
        #expect(RequestGuard().refusal(of: .init(host: host)) == nil)
    }

    @Test(arguments: [
        nil, "", "evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil.example", "localhost:8787x",
        "localhost:8787:1", "127.0.0.1@evil.example", "192.0.2.1:8787", "0.0.0.0:8787", "[::2]:8787", "[::1", "[::1]x", "::1",
        "[::ffff:127.0.0.1]", "127.1", "2130706433", "localhost, localhost", " localhost",
    ])
    func otherNamesAreMisdirected(host: String?) {
        #expect(RequestGuard().refusal(of: .init(host: host)) == .misdirected)
    }

    @Test func aUnixSocketHasAnyName() {
        let rules = RequestGuard(allowsAnyHost: true)
        #expect(rules.refusal(of: .init(host: "status.example.org")) == nil)
        #expect(rules.refusal(of: .init(host: nil)) == .misdirected)
        #expect(rules.refusal(of: .init(host: "status.example.org", origin: "https://status.example.org")) == nil)
        #expect(rules.refusal(of: .init(host: "status.example.org", origin: "https://evil.example")) == .forbidden)
    }

    @Test(arguments: [
        ("http://localhost:8787", true), ("https://localhost:8787", true), ("HTTP://LOCALHOST:8787", true), ("null", false),
        ("http://localhost", false), ("http://localhost:9999", false), ("http://evil.example", false), ("", false),
        ("http://localhost:8787, http://localhost:8787", false), ("file://localhost:8787", false),
    ])
    func onlyTheOwnOriginIsAnswered(origin: String, isAnswered: Bool) {
        let refusal = RequestGuard().refusal(of: .init(host: "localhost:8787", origin: origin))
        #expect(refusal == (isAnswered ? nil : .forbidden))
    }

    @Test(arguments: [
        ("same-origin", "cors", "empty", true), ("none", "navigate", "document", true),
        ("cross-site", "navigate", "document", true), ("cross-site", "navigate", "iframe", false),
        ("same-site", "navigate", "object", false), ("cross-site", "navigate", nil, false),
        ("cross-site", "no-cors", "image", false), ("same-site", "no-cors", "script", false),
        ("cross-site", "cors", "empty", false), ("cross-site", nil, nil, false),
    ])
    func otherSitesMayLinkAndNothingElse(site: String, mode: String?, destination: String?, isAnswered: Bool) {
        let parts = RequestGuard.Request(host: "localhost:8787", site: site, mode: mode, destination: destination)
        let refusal = RequestGuard().refusal(of: parts)
        #expect(refusal == (isAnswered ? nil : .forbidden))
    }

    @Test(arguments: [
        ("GET", true), ("HEAD", true), ("POST", false), ("PUT", false), ("DELETE", false), ("OPTIONS", false), ("get", false),
    ])
    func nothingIsWritten(method: String, isAnswered: Bool) {
        #expect(RequestGuard().refusal(of: .init(method: method, host: "[::1]")) == (isAnswered ? nil : .methodNotAllowed))
    }
}

struct ListenAddressTests {
    @Test(arguments: [
        ("127.0.0.1:8787", ListenAddress.loopback("127.0.0.1", port: 8787), "http://127.0.0.1:8787/"),
        ("127.9.9.9:0", .loopback("127.9.9.9", port: 0), "http://127.9.9.9:0/"),
        ("[::1]:80", .loopback("::1", port: 80), "http://[::1]:80/"),
        ("localhost:65535", .loopback("127.0.0.1", port: 65_535), "http://127.0.0.1:65535/"),
        ("unix:/run/reach.sock", .socket("/run/reach.sock"), "unix:/run/reach.sock"), ("unix:a:b", .socket("a:b"), "unix:a:b"),
    ])
    func placesAreParsed(text: String, place: ListenAddress, url: String) throws {
        #expect(try ListenAddress(text) == place)
        #expect(place.url(port: nil) == url)
    }

    @Test(arguments: [
        "", ":", "8787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1", "0.0.0.0:80",
        "192.0.2.1:80", "::1:80", "[::]:80", "[::1]", "nas.local:80", "unix:", "http://127.0.0.1:80", "128.0.0.1:1",
        "unix:" + String(repeating: "x", count: 108), "unix:a\u{0}b",
    ])
    func otherPlacesAreRefusedWithARemedy(text: String) {
        let error = #expect(throws: InvalidArgument.self) { try ListenAddress(text) }
        #expect(error?.description.contains("next: ") == true)
    }

    @Test func anAddressOfTheNetworkIsExplained() {
        let error = #expect(throws: InvalidArgument.self) { try ListenAddress("192.0.2.1:80") }
        #expect(error?.description.contains("ssh -L") == true && error?.description.contains("reverse proxy") == true)
    }

    @Test(arguments: [
        (["STATE_DIRECTORY": "/var/lib/reach:/var/lib/more", "HOME": "/root"], "/var/lib/reach"),
        (["XDG_STATE_HOME": "/s", "HOME": "/h"], "/s/reachability-watch"),
        (["XDG_STATE_HOME": "relative", "HOME": "/h"], "/h/.local/state/reachability-watch"), (["HOME": "relative"], nil),
        ([:], nil),
    ])
    func historyHasItsPlace(environment: [String: String], directory: String?) {
        #expect(ServePlaces.historyDirectory { environment[$0] } == directory)
    }
}
