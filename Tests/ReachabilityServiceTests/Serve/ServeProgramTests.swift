#if Service
import Foundation
import TestSupport
import Testing

@testable import reachability_service

/// The built command, as a person runs it.
@Suite(.timeLimit(.minutes(10)), .blocking, .serialized) struct ServeProgramTests {
    /// Lets this process have as many connections as a test needs.
    private static func raiseFileLimit() throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        try #require(limit.rlim_max >= 2000)
        limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, 4096))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    @Test func aThousandConnectionsLeaveAServiceWithFewDescriptorsServing() throws {
        try Self.raiseFileLimit()
        let daemon = try ServeDaemon()
        try daemon.start(["--listen", "127.0.0.1:0"], setting: "ulimit -n 64")
        let url = try #require(daemon.url())
        let reader = try ServiceConnection(to: url)
        try reader.openEvents()
        #expect(reader.nextEvent { $0.contains("event: baseline") } != nil)
        var crowd: [ServiceConnection] = []
        for number in 0..<1000 {
            let connection = try ServiceConnection(to: url)
            switch number % 3 {
            case 0: connection.request("/events")
            case 1: connection.send("GET / HT")
            default: break
            }
            crowd.append(connection)
        }
        // With all of them there. A service that makes room may close a connection before it has read the request: once more, then.
        func answer(to path: String) throws -> ServiceConnection.Answer? {
            for _ in 0..<5 {
                let connection = try ServiceConnection(to: url)
                connection.request(path)
                if let answer = try connection.readAnswer() { return answer }
            }
            return nil
        }
        #expect(try answer(to: "/metrics")?.status == 200)
        #expect(try answer(to: "/status")?.body.contains("\"chain\":[{") == true)
        crowd = []
        for _ in 0..<20 { #expect(try answer(to: "/")?.status == 200) }
        daemon.signal(SIGTERM)
        #expect(daemon.end().code == 143)
    }

    @Test func aSignalEndsItWithOpenStreams() throws {
        let daemon = try ServeDaemon()
        let path = "\(daemon.directory)/s"
        try daemon.start(["--listen", "unix:\(path)"], setting: ServeDaemon.withTimeToEnd)
        let url = try #require(daemon.url())
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        let readers = try (0..<20).map { _ in try ServiceConnection(to: url) }
        for reader in readers { try reader.openEvents() }
        let start = ContinuousClock.now
        daemon.signal(SIGTERM)
        #expect(daemon.end().code == 143)
        #expect(ContinuousClock.now - start < .seconds(60))
        #expect(!FileManager.default.fileExists(atPath: path), "the socket is left")
        #expect(readers.allSatisfy { $0.awaitEnd() })
        // The next start knows how long it ran.
        let again = try ServeDaemon()
        try again.start(
            ["--listen", "unix:\(path)"], setting: ServeDaemon.withTimeToEnd, history: "\(daemon.directory)/h")
        let history = try ServiceConnection(to: #require(again.url())).answer(to: "/history?hours=1").body
        #expect(history.components(separatedBy: #""status":"unknown""#).count == 3, "\(history)")
        again.signal(SIGTERM)
        #expect(again.end().code == 143)
        let report = try ServeDaemon.run(["report", "--format", "json", "--history", "\(daemon.directory)/h"])
        #expect(report.contains("\"scope\":\"internet\"") && report.contains("\"gaps\":[{"), "\(report)")
    }

    @Test func aSocketThatIsLeftIsReplacedAndALiveOneIsNot() throws {
        let first = try ServeDaemon()
        let path = "\(first.directory)/s"
        try first.start(["--listen", "unix:\(path)"])
        let url = try #require(first.url())
        let second = try ServeDaemon()
        try second.start(["--listen", "unix:\(path)"])
        let refused = second.end()
        #expect(refused.code == 73 && refused.messages.contains { $0.contains("another process listens") && $0.contains("next: ") })
        #expect(try ServiceConnection(to: url).answer(to: "/status").status == 200)
        first.signal(SIGKILL)
        #expect(first.end().code == 9 && FileManager.default.fileExists(atPath: path))
        let third = try ServeDaemon()
        try third.start(["--listen", "unix:\(path)"])
        #expect(try ServiceConnection(to: #require(third.url())).answer(to: "/status").status == 200)
        third.signal(SIGINT)
        #expect(third.end().code == 130)
    }

    @Test func otherFilesAreNotRemoved() throws {
        let daemon = try ServeDaemon()
        let path = "\(daemon.directory)/file"
        #expect(FileManager.default.createFile(atPath: path, contents: Data("text".utf8)))
        try daemon.start(["--listen", "unix:\(path)"])
        let refused = daemon.end()
        #expect(refused.code == 73 && refused.messages.contains { $0.contains("is no socket") })
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("text".utf8))
    }

    @Test(arguments: [
        (["--listen", "0.0.0.0:8787"], 64, "ssh -L"), (["--listen", "nowhere"], 64, "not a place to listen"),
        (["--listen", "127.0.0.1:0", "--history", "/proc/nowhere"], 73, "--history"), (["--history", ""], 64, "may not be empty"),
    ])
    func wrongPlacesAreReported(options: [String], code: Int32, words: String) throws {
        let daemon = try ServeDaemon()
        try daemon.start(options)
        let end = daemon.end()
        #expect(end.code == code && end.messages.joined().contains(words) && end.messages.joined().contains("next: "), "\(end)")
    }

    @Test func aPortInUseIsReported() throws {
        let first = try ServeDaemon()
        try first.start(["--listen", "127.0.0.1:0"])
        let url = try #require(first.url())
        let second = try ServeDaemon()
        try second.start(["--listen", String(url.dropFirst("http://".count).dropLast())])
        let end = second.end()
        #expect(
            end.code == 73 && end.messages.contains { $0.contains("Address already in use") && $0.contains("next: ") }, "\(end)")
    }
}
#endif
