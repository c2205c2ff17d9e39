import Dispatch
import Foundation
import Glibc
import MisbehavingServer
import Synchronization
import Testing

/// Requests over a real cable to a real server, from a process in a namespace.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct HTTPTests {
    private static let body = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }

    @Test(arguments: HTTPClientKind.allCases) func refusedConnectionIsServersFault(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let report = try await network.request("get", by: client, "192.0.2.1", "--attempts", "2").report()
        #expect(
            report.filter { $0.hasPrefix("failed") } == ["failed 1 server charged -1004", "failed 2 server charged -1004"],
            "\(report)")
        #expect(report.contains { $0.hasPrefix("error -1004") }, "\(report)")
    }

    /// The request was never sent: it is repeated with any method.
    @Test(arguments: HTTPClientKind.allCases) func descriptorShortageIsLocalFault(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let server = try network.serve { _ in .respond(200, [:], "hello") }
        defer { server.stop() }
        let report = try await network.request("get", by: client, "192.0.2.1", "--method", "POST", "--starve", "--attempts", "1")
            .report()
        #expect(report.filter { $0.hasPrefix("failed") } == ["failed 1 local uncharged -1"], "\(report)")
        #expect(report.contains("ok 200 5") && server.requests.map(\.method) == ["POST"], "\(report)")
    }

    /// The kernel finds no route: the request was never sent.
    @Test(arguments: HTTPClientKind.allCases) func postWithoutConnectionIsRepeated(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        try await network.near.ip("route add unreachable 203.0.113.1/32")
        let report = try await network.request("get", by: client, "203.0.113.1", "--method", "POST", "--attempts", "2").report()
        #expect(report.count { $0.hasPrefix("attemptStarted") } == 2, "\(report)")
        #expect(report.contains { $0.hasPrefix("failed 2 server charged") }, "\(report)")
    }

    @Test(arguments: HTTPClientKind.allCases) func serverDelayIsWaitedOut(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let server = try network.serve { $0.number == 1 ? .respond(503, ["Retry-After": "1"]) : .respond(200, [:], "hello") }
        defer { server.stop() }
        let clock = ContinuousClock()
        let start = clock.now
        let report = try await network.request("get", by: client).report()
        #expect(report.contains("failed 1 overload 1 charged 503") && report.contains("ok 200 5"), "\(report)")
        #expect(clock.now - start >= .seconds(1))
    }

    @Test(arguments: HTTPClientKind.allCases) func downloadContinuesAfterReset(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let server = try network.serve { request in
            request.number == 1
                ? .breakOff(200, ["ETag": "\"a\""], body: Self.body, after: 60_000) : .part(of: Self.body, tag: "\"a\"", request)
        }
        defer { server.stop() }
        let report = try await network.request("download", by: client).report()
        let sum = Self.body.reduce(into: UInt64(0)) { $0 += UInt64($1) }
        let rest = server.requests.last?.firstByte
        let status = rest == nil ? 200 : 206
        #expect(report.contains("failed 1 unknown charged -1005") && report.contains("ok \(status) 200000 \(sum)"), "\(report)")
        // A client that polls for errors first may see the reset before it has read earlier bytes, and lose them.
        #expect(client == .urlSession ? rest == 60_000 : rest ?? 0 <= 60_000)
        #expect(server.requests.count == 2)
    }

    /// The path is older than the monitor: nothing suggests a fault of the network.
    @Test(arguments: HTTPClientKind.allCases) func missingNameIsServersFault(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let report = try await network.request("get", by: client, "name.invalid", "--attempts", "1").report()
        #expect(report.filter { $0.hasPrefix("failed") } == ["failed 1 server charged -1003"], "\(report)")
        #expect(report.contains { $0.hasPrefix("error -1003 ") }, "\(report)")
    }

    /// No server has answered since the reconnect: the network has time to come up.
    @Test(arguments: HTTPClientKind.allCases) func missingNameAfterReconnectIsNetworksFault(client: HTTPClientKind)
        async throws
    {
        let network = try await CabledNetwork.withFarEnd()
        try await network.pull()
        let child = try network.request("get", by: client, "name.invalid", "--attempts", "1")
        defer { child.signal(SIGKILL) }
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "waiting 0")
        try await network.plug()
        #expect(await lines.next(isolation: #isolation) == "attemptStarted 1")
        #expect(await lines.next(isolation: #isolation) == "failed 1 network uncharged -1003")
        #expect(await lines.next(isolation: #isolation) == "backingOff 1")
    }

    @Test(arguments: HTTPClientKind.allCases) func nameLostWithCableIsLookedUpAgain(client: HTTPClientKind)
        async throws
    {
        let network = try await CabledNetwork.withFarEnd()
        try await network.far.ip("addr add 192.0.2.53/24 dev remote0")
        let names = try await NameServer.start(at: "192.0.2.53", in: network.far, finding: "192.0.2.1")
        defer { names.stop() }
        // Long enough that the cable is out first, on a busy machine, too.
        let child = try network.request("get", by: client, "name.invalid", lookupTimeout: 5, "--attempts", "1")
        defer { child.signal(SIGKILL) }
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "attemptStarted 1")
        // A query that is sent with the cable out is dropped, and the lookup then fails before the kernel tells of the loss.
        for await _ in names.queries { break }
        try await network.pull()
        #expect(await lines.next(isolation: #isolation) == "failed 1 network uncharged -1003")
        #expect(await lines.next(isolation: #isolation) == "waiting 1")
        try await network.plug()
        #expect(await lines.next(isolation: #isolation) == "attemptStarted 2")
    }

    /// The far end gets nothing until the cable has been out and in: then it refuses the connection.
    @Test(arguments: HTTPClientKind.allCases) func refusalAcrossOutageIsNotCharged(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        try await network.far.ip("link set remote0 address 02:00:00:00:00:01")
        // Hardware addresses that are given: a request for one that is lost would end the attempt after 3 s, with the cable in.
        try await network.near.ip("neigh replace 192.0.2.1 lladdr 02:00:00:00:00:02 dev cable0 nud permanent")
        let child = try network.request("get", by: client, "192.0.2.1", "--attempts", "1", "--transitions")
        var lines = child.lines.makeAsyncIterator()
        var report: [String] = []
        func read(until last: String?) async {
            while let line = await lines.next(isolation: #isolation) {
                report.append(line)
                if line == last { break }
            }
        }
        await read(until: "attemptStarted 1")
        // The bus knows each change before it is printed.
        try await network.pull()
        await read(until: "offline")
        try await network.plug()
        await read(until: "online")
        try await network.near.ip("neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 dev cable0 nud permanent")
        await read(until: nil)
        #expect(
            report.filter { $0.hasPrefix("failed") } == ["failed 1 network uncharged -1004", "failed 2 server charged -1004"],
            "\(report)")
        #expect(await child.exitCode() == 0, "\(report)")
    }

    @Test(arguments: HTTPClientKind.allCases) func offlineRequestWaitsForCable(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let server = try network.serve { _ in .respond(200, [:], "hello") }
        defer { server.stop() }
        try await network.near.ip("link set cable0 down")
        let child = try network.request("get", by: client)
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "waiting 0")
        #expect(server.requests.isEmpty)
        try await network.near.ip("link set cable0 up\nroute add default via 192.0.2.1 dev cable0")
        #expect(await lines.next(isolation: #isolation) == "attemptStarted 1")
        var rest: [String] = []
        while let line = await lines.next(isolation: #isolation) { rest.append(line) }
        #expect(rest.contains("ok 200 5"), "\(rest)")
    }

    @Test func requestWaitsBehindPortal() async throws {
        let network = try await CabledNetwork.withFarEnd()
        let server = try network.serve { request in
            request.number == 1 ? .respond(302, ["Location": "http://portal.invalid/"]) : .respond(204)
        }
        defer { server.stop() }
        let report = try await network.request("get", "192.0.2.1", "--validate").report()
        #expect(report.contains("behind a captive portal: http://portal.invalid/") && report.contains("validated"), "\(report)")
        #expect(report.contains("attemptStarted 1") && report.contains("ok 204 0"), "\(report)")
        // Behind the portal it would have followed the redirect and failed.
        #expect(!report.contains { $0.hasPrefix("failed") }, "\(report)")
        let own = try #require(server.requests.firstIndex { $0.headers["cache-control"] == nil }, "\(server.requests)")
        #expect(own >= 2, "two validations come first")
    }

    /// The server blocks each of the first three uploads midway until the cable is out.
    @Test(arguments: HTTPClientKind.allCases) func uploadSurvivesThreeOutages(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let (reached, reachedIn) = AsyncStream.makeStream(of: Int.self)
        let held = Mutex(0)
        let isOut = DispatchSemaphore(value: 0)
        let size = 50_000_000
        let server = try network.serve { request, count in
            guard request.number <= 3, count > size / 4 * request.number else { return }
            let isFirst = held.withLock { held in
                defer { held = max(held, request.number) }
                return held < request.number
            }
            guard isFirst else { return }
            reachedIn.yield(request.number)
            isOut.wait()
        } _: { _ in
            .respond(201)
        }
        defer { server.stop() }
        let child = try network.request("upload", by: client, "192.0.2.1", "--size", "\(size)", "--interrupt", "--attempts", "1")
        var lines = child.lines.makeAsyncIterator()
        var report: [String] = []
        var pulls = reached.makeAsyncIterator()
        for _ in 1...3 {
            _ = await pulls.next(isolation: #isolation)
            try await network.pull()
            while let line = await lines.next(isolation: #isolation) {
                report.append(line)
                if line.hasPrefix("failed") { break }
            }
            isOut.signal()
            try await network.plug()
        }
        while let line = await lines.next(isolation: #isolation) { report.append(line) }
        let expected = (1...3).map { "failed \($0) network uncharged 0" }
        #expect(report.filter { $0.hasPrefix("failed") } == expected, "\(report)")
        #expect(report.contains("attemptStarted 4") && report.contains("ok 201"), "\(report)")
        #expect(report.count { $0.hasPrefix("waiting") } == 3, "\(report)")
        let last = try #require(server.requests.last)
        #expect(last.length == size && last.sum == UInt64(size) * 7 && server.requests.count == 4)
    }

    /// The server falls silent in the middle of the body; meanwhile the lease is renewed and a second cable plugged in.
    @Test(arguments: HTTPClientKind.allCases) func onlyLostAddressEndsDownload(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        try await network.far.ip("addr add 198.51.100.1/24 dev remote1")
        let server = try network.serve { request in
            request.number == 1
                ? .stallAfter(200, ["ETag": "\"a\""], body: Self.body, count: 70_000) : .part(of: Self.body, tag: "\"a\"", request)
        }
        defer { server.stop() }
        let child = try network.request(
            "download", by: client, "192.0.2.1", "--attempts", "1", "--source-grace", "10000", "--transitions")
        defer { child.signal(SIGKILL) }
        try await server.untilRequests(1)
        var lines = child.lines.makeAsyncIterator()
        var report: [String] = []
        // The machine goes offline and returns with its address, well within the grace.
        try await network.near.ip("addr del 192.0.2.10/24 dev cable0")
        while let line = await lines.next(isolation: #isolation), line != "offline" { report.append(line) }
        try await network.addIPv4()
        while let line = await lines.next(isolation: #isolation), line != "online" { report.append(line) }
        try await network.addIPv4(1, metric: 50)
        let clock = ContinuousClock()
        let start = clock.now
        try await network.near.ip("addr del 192.0.2.10/24 dev cable0")
        while let line = await lines.next(isolation: #isolation) {
            report.append(line)
            if line.hasPrefix("failed") { break }
        }
        #expect(clock.now - start >= .seconds(10), "the earlier loss was within the grace")
        while let line = await lines.next(isolation: #isolation) { report.append(line) }
        let sum = Self.body.reduce(into: UInt64(0)) { $0 += UInt64($1) }
        let status = server.requests.last?.firstByte == nil ? 200 : 206
        #expect(report.filter { $0.hasPrefix("failed") } == ["failed 1 network uncharged 0"], "\(report)")
        #expect(report.contains("ok \(status) 200000 \(sum)") && server.requests.count == 2, "\(report)")
    }

    /// Half of the downloads have short-lived sessions, whose connections over TLS are still open at their end.
    @Test(arguments: HTTPClientKind.allCases) func downloadsOverTLSComeAndGo(client: HTTPClientKind) async throws {
        try await CabledNetwork.withTLSServer { network, certificate, _ in
            let child = try network.request(
                "download", by: client, scheme: "https", authority: certificate, "--times", "200")
            let report = await child.report()
            #expect(report.contains("ok 200 5 532") && report.last == "end", "\(report.suffix(5))")
            #expect(report.count { $0 == "succeeded 1" } == 200)
            #expect(await child.exitCode() == 0)
        }
    }

    @Test(arguments: HTTPClientKind.allCases) func untrustedCertificateIsError(client: HTTPClientKind) async throws {
        try await CabledNetwork.withTLSServer { network, _, _ in
            let report = try await network.request("download", by: client, scheme: "https", "--attempts", "3").report()
            #expect(report.contains { $0.hasPrefix("error -1") }, "\(report)")
            #expect(report.count { $0.hasPrefix("failed") } == 1, "another attempt would meet the same certificate: \(report)")
        }
    }

    /// Without the trait, libcurl may repeat what has no body.
    private static var provenSizes: [Int] {
        #if AsyncHTTPClient
        [3, 0]
        #else
        [3]
        #endif
    }

    /// Over TLS a session has connections that it reuses: libcurl gets no body for a second time.
    @Test(arguments: HTTPClientKind.allCases, provenSizes)
    func postOverTLSIsCarriedOutOnce(client: HTTPClientKind, size: Int) async throws {
        try await CabledNetwork.withTLSServer { network, certificate, posts in
            let report = try await network.request(
                "posts", by: client, scheme: "https", authority: certificate, "--times", "300", "--size", "\(size)"
            ).report()
            #expect(report.contains("ok posted"), "\(report.suffix(5))")
            let lines = try String(contentsOfFile: posts, encoding: .utf8).split(separator: "\n")
            #expect(Set(lines).count == lines.count && lines.allSatisfy { $0.hasSuffix(" \(size)") }, "\(lines.count)")
            // Some meet a dead connection: whether they were carried out is not known, and they are not repeated.
            #expect(lines.count > 200 && report.count { $0.hasPrefix("failed") } > 30, "\(lines.count)")
        }
    }

    @Test func sessionsPostOverTLSHasItsPasswordAndCookiesWhoeverMakesIt() async throws {
        try await CabledNetwork.withTLSServer { network, certificate, posts in
            let report = try await network.request(
                "get", "u:p@192.0.2.1", path: "enter", scheme: "https", authority: certificate, "--method", "POST"
            ).report()
            #expect(report.contains("ok 200 5"), "\(report)")
            #expect(try String(contentsOfFile: posts, encoding: .utf8) == "/enter 0\n")
        }
    }

    @Test func sessionsPasswordStaysWithItsOriginWhoeverMakesThePost() async throws {
        try await CabledNetwork.withTLSServer { network, certificate, posts in
            let other = try network.serve { _ in .respond(200, [:], "there") }
            defer { other.stop() }
            let report = try await network.request(
                "get", path: "leave", scheme: "https", authority: certificate, "--method", "POST", "--authorization", "Basic dTpw"
            ).report()
            #expect(report.contains("ok 200 5"), "\(report)")
            #expect(other.requests.map(\.path) == ["/there"] && other.requests.allSatisfy { $0.headers["authorization"] == nil })
            #expect(try String(contentsOfFile: posts, encoding: .utf8) == "/leave 0\n")
        }
    }

    /// The name server is silent for 30 s, and libcurl would wait for it at each cancellation, with all of the session's requests.
    @Test(arguments: HTTPClientKind.allCases) func silentNameServerHoldsUpNothing(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        try await network.near.ip("neigh replace 192.0.2.53 lladdr 02:00:00:00:00:53 dev cable0 nud permanent")
        let server = try network.serve { _ in .respond(200, [:], "hello") }
        defer { server.stop() }
        let start = ContinuousClock.now
        let child = try network.request(
            "names", by: client, "name.invalid", lookupTimeout: 30, "--attempts", "2", "--attempt-timeout", "500", "--then",
            "http://192.0.2.1/")
        // The client itself ends with the lookup.
        defer { child.signal(SIGKILL) }
        let report = await child.report(until: 2) { $0.hasPrefix("succeeded") || $0.hasPrefix("gaveUp") }
        #expect(report.last == "succeeded 1", "\(report)")
        #expect(ContinuousClock.now - start < .seconds(25), "a lookup takes 30 s")
    }
}
