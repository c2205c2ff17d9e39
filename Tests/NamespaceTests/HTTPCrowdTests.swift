import Dispatch
import Glibc
import MisbehavingServer
import Testing

/// Hundreds of requests over a real cable, from one process.
///
/// Each trouble lasts until a number of attempts has failed, and not for a time.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct HTTPCrowdTests {
    private static let count = 1000

    /// The path is up, but the far end cannot answer: SYNs and what follows them are lost without a word.
    ///
    /// `s21DroppedPacketsCostAFewAttempts` at a smaller scale, since here time is real: an attempt ends after 1 s instead of 20 s,
    /// and the trouble with the fourth failure, about 7 s after the reconnect instead of 60 s. Only the gate limits the requests: a
    /// thousand connections are allowed.
    @Test(arguments: HTTPClientKind.allCases) func droppedPacketsCostAFewAttempts(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let server = try network.serve { _ in .respond(200) }
        defer { server.stop() }
        try await network.far.ip("route add blackhole 192.0.2.10/32")
        try await network.pull()
        let child = try network.request(
            "crowd", by: client, "192.0.2.1", "--jobs", "\(Self.count)", "--timeout", "1", "--connections", "\(Self.count)")
        defer { child.signal(SIGKILL) }
        _ = await child.report(until: Self.count) { $0.hasPrefix("waiting") }
        let clock = ContinuousClock()
        let start = clock.now
        try await network.plug()
        let report = await child.report(until: 4) { $0.hasPrefix("failed") }
        let isSettling = clock.now - start < .seconds(30)
        try await network.far.ip("route del blackhole 192.0.2.10/32")
        let attempts = report.count { $0.hasPrefix("attemptStarted") }
        #expect((4...15).contains(attempts), "\(attempts) attempts")
        let failures = report.filter { $0.hasPrefix("failed") }
        // Later a timeout is the server's: that can happen on a machine that is very busy.
        #expect(!isSettling || failures.allSatisfy { $0.hasSuffix(" network uncharged -1001") }, "\(failures)")
        let rest = await child.report()
        #expect(rest.contains("ok \(Self.count) of \(Self.count)"), "\(rest.filter { !$0.hasPrefix("attempt") }.suffix(20))")
    }

    /// The name server is silent until two lookups have failed, about 3 s after the reconnect: the times of
    /// `s22FailedNameLookupsLoseNoRequest`, which runs in virtual time.
    ///
    /// A single charged failure would end a request, and so would one that may have been received.
    @Test(arguments: HTTPClientKind.allCases) func lateNamesLoseNoRequest(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        try await network.far.ip("addr add 192.0.2.53/24 dev remote0")
        let names = try await NameServer.start(at: "192.0.2.53", in: network.far, finding: "192.0.2.1")
        defer { names.stop() }
        let server = try network.serve { _ in .respond(201) }
        defer { server.stop() }
        try await network.pull()
        let child = try network.request(
            "crowd", by: client, "inbox.test", "--jobs", "\(Self.count)", "--method", "POST", "--size", "100", "--attempts", "1")
        defer { child.signal(SIGKILL) }
        _ = await child.report(until: Self.count) { $0.hasPrefix("waiting") }
        try await network.plug()
        let failures = await child.report(until: 2) { $0.hasPrefix("failed") }.filter { $0.hasPrefix("failed") }
        #expect(failures.count == 2 && failures.allSatisfy { $0.hasSuffix(" network uncharged -1003") }, "\(failures)")
        #expect(server.requests.isEmpty)
        names.begin()
        let rest = await child.report()
        #expect(rest.contains("ok \(Self.count) of \(Self.count)"), "\(rest.filter { !$0.hasPrefix("attempt") }.suffix(20))")
        let received = server.requests
        #expect(received.allSatisfy { $0.method == "POST" && $0.length == 100 })
        #expect(received.count == Self.count && Set(received.map(\.path)) == Set((1...Self.count).map { "/\($0)" }))
    }

    /// The server holds every answer back until an upload finds no descriptor.
    ///
    /// Dispatch stops a process that has no descriptor left, so that requests may not take the last one.
    @Test(arguments: HTTPClientKind.allCases) func uploadsLeaveDescriptorsToTheProcess(client: HTTPClientKind) async throws {
        let network = try await CabledNetwork.withFarEnd()
        let (count, descriptors) = (300, 64)
        let turnstile = DispatchSemaphore(value: 0)
        let server = try network.serve { _ in
            turnstile.wait()
            turnstile.signal()
            return .respond(201)
        }
        defer {
            turnstile.signal()
            server.stop()
        }
        let child = try network.request(
            "crowd", by: client, "192.0.2.1", descriptors: descriptors, "--jobs", "\(count)", "--method", "PUT", "--size", "1000",
            "--attempts", "1", "--connections", "\(count)")
        defer { child.signal(SIGKILL) }
        let report = await child.report(until: 1) { $0.hasPrefix("failed") }
        #expect(report.last?.hasPrefix("failed 1 local uncharged ") == true, "\(report)")
        try await server.untilRequests(descriptors / 4)
        #expect(server.connectionCount == descriptors / 4)
        turnstile.signal()
        let rest = await child.report()
        #expect(rest.contains("ok \(count) of \(count)"), "\(rest.filter { !$0.hasPrefix("attempt") }.suffix(20))")
        #expect(!rest.contains { $0.hasPrefix("failed") && !$0.contains(" local uncharged ") }, "\(rest)")
        #expect(server.requests.count == count && Set(server.requests.map(\.path)).count == count)
        #expect(await child.exitCode() == 0)
    }
}
