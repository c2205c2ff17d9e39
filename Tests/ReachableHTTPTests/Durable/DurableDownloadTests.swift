import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import TestSupport
import Testing

@testable import ReachableHTTP

/// Durable downloads to real files, over attempts and restarts.
@Suite(.timeLimit(.minutes(20))) struct DurableDownloadTests {
    private static let body = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let digest = sha256(body)

    static func sha256(_ bytes: [UInt8]) -> String {
        var hash = SHA256()
        bytes.withUnsafeBytes { hash.update($0) }
        return hash.finish()
    }

    private static func contents(_ trial: DurableTrial) throws -> [UInt8] { Array(try Data(contentsOf: trial.destination)) }

    private static func download(_ trial: DurableTrial, length: Int64? = nil, sha256: String? = digest) throws -> DurableDownload {
        try DurableDownload(try trial.url(), to: trial.destination, length: length, sha256: sha256)
    }

    private static func ranges(_ trial: DurableTrial) -> [String?] { trial.server.requests.map { $0.headers["range"] } }

    @Test func fileIsPutInPlace() async throws {
        try await DurableTrial.run { _ in
            .respond(200, ["ETag": "\"a\"", "X-Name": "sea"], body: Self.body)
        } _: { trial in
            try Data("old".utf8).write(to: trial.destination)
            let seen = Mutex<DurableResponse?>(nil)
            let life = trial.launch { queue in
                queue.registerDownloads(options: trial.options) { download, response, _ in
                    #expect(FileManager.default.fileExists(atPath: download.path))
                    seen.withLock { $0 = response }
                }
            }
            let job = try await life.end(of: try await life.queue.push(try Self.download(trial, length: 100_000)).id)
            #expect(job.state == .succeeded && job.kind == "http-download")
            #expect(try Self.contents(trial) == Self.body)
            let response = try #require(seen.withLock { $0 })
            #expect(response.status == 200 && response.header("x-name") == "sea" && response.body.isEmpty)
            let mode = try FileManager.default.attributesOfItem(atPath: trial.destination.path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(trial.folder.names.count == 1, "nothing is left beside it")
            await life.stop()
        }
    }

    @Test func downloadContinuesInTheNextAttempt() async throws {
        try await DurableTrial.run { request in
            switch request.number {
            case 1: .stopShort(200, ["ETag": "\"a\""], body: Self.body, after: 30_000)
            case 2: .respond(503, ["ETag": "\"other\""], "busy")
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial)).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == Self.body)
            #expect(Self.ranges(trial) == [nil, "bytes=30000-", "bytes=30000-"])
            #expect(trial.server.requests.allSatisfy { $0.headers["accept-encoding"] == "identity" })
        }
    }

    /// The number of bytes that are on the disk, for a test to wait for.
    private static func written(_ count: Rendezvous<Int64>) -> @Sendable (inout DurableHTTPOptions) -> Void {
        { $0.onWrite = { written in count.change { $0 = written } } }
    }

    @Test(arguments: [true, false]) func downloadContinuesAfterARestart(isReboot: Bool) async throws {
        try await DurableTrial.run { request in
            request.number == 1
                ? .stallAfter(200, ["ETag": "\"a\""], body: Self.body, count: 30_000) : .part(of: Self.body, tag: "\"a\"", request)
        } _: { trial in
            let count = Rendezvous<Int64>(0)
            let first = trial.launch(Self.written(count))
            let id = try await first.queue.push(try Self.download(trial)).id
            try await count.wait { $0 == 30_000 }
            if isReboot { await trial.world.reboot() } else { await first.process.kill() }
            await first.ended()
            let hidden = trial.folder.names
            #expect(hidden == [".file.\(id).part", ".file.\(id).state"])
            let second = trial.launch()
            #expect(try await second.end(of: id).state == .succeeded)
            #expect(try Self.contents(trial) == Self.body && Self.ranges(trial) == [nil, "bytes=30000-"])
            await second.stop()
        }
    }

    /// Cuts each response at random, closes or stalls, and kills processes in between.
    @Test(arguments: 1...8) func randomCutsCostNoByte(seed: UInt64) async throws {
        let random = Mutex(SeededGenerator(seed: seed))
        let served = Mutex(0)
        let (stalled, overtaken) = (Rendezvous<Int64>(0), Rendezvous<Int64>(0))
        try await DurableTrial.run { request in
            let first = request.headers["if-range"] == "\"a\"" ? request.firstByte ?? 0 : 0
            let rest = Array(Self.body[first...])
            let (count, stalls) = random.withLock { generator in
                (min(rest.count, Int.random(in: 0...20_000, using: &generator)), Bool.random(using: &generator))
            }
            served.withLock { $0 += count }
            let head = ["ETag": "\"a\"", "Content-Range": "bytes \(first)-99999/100000"]
            let status = first > 0 ? 206 : 200
            if count == rest.count { return .respond(status, head, body: rest) }
            if !stalls { return .stopShort(status, head, body: rest, after: count) }
            stalled.change { $0 = Int64(first + count) }
            return .stallAfter(status, head, body: rest, count: count)
        } _: { trial in
            let policy = DurableTrial.policy.giveUpAfter(maxAttempts: nil)
            var kills = 0
            var life = trial.launch(policy: policy, Self.written(overtaken))
            let id = try await life.queue.push(try Self.download(trial)).id
            // A stalled response ends only with its process, when all of its bytes are on the disk.
            while try await Self.stallsOrEnds(life, id, stalled) {
                let target = stalled.value
                try await overtaken.wait { $0 >= target }
                stalled.change { $0 = 0 }
                await life.kill()
                kills += 1
                life = trial.launch(policy: policy, Self.written(overtaken))
            }
            #expect(try await life.end(of: id).state == .succeeded, "seed \(seed)")
            #expect(try Self.contents(trial) == Self.body, "seed \(seed)")
            #expect(served.withLock { $0 } == Self.body.count, "seed \(seed), \(kills) kills")
            await life.stop()
        }
    }

    /// Returns true when a response stalls, false when the job has ended.
    private static func stallsOrEnds(_ life: DurableLife, _ id: DurableJobID, _ stalled: Rendezvous<Int64>) async throws -> Bool {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await stalled.wait { $0 > 0 }
                return true
            }
            group.addTask {
                _ = try await life.end(of: id)
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? false
        }
    }

    // MARK: - Hostile servers

    private static let tagged = ["ETag": "\"a\""]

    /// Answers to a request for the bytes from 30000, after which the download starts over.
    @Test(arguments: [
        Reply.respond(206, ["Content-Range": "bytes 0-9/100000"], "0123456789"),
        .respond(206, ["Content-Range": "bytes 30000-30009/99999"], "0123456789"),
        .respond(206, ["Content-Range": "bytes 30000-30009/100000"], "0123456789 and more"),
        .respond(206, ["Content-Range": "bytes 30000-30009/100000", "ETag": "\"b\""], "0123456789"),
        .respond(206, [:], "0123456789"), .respond(416, ["Content-Range": "bytes */10"], "no"),
        .stopShort(200, [:], body: body.reversed(), after: 50_000),
    ])
    func answerThatDoesNotFitStartsOver(reply: Reply) async throws {
        try await DurableTrial.run { request in
            switch request.number {
            case 1: .stopShort(200, Self.tagged, body: Self.body, after: 30_000)
            case 2: reply
            default: .part(of: Self.body, tag: "\"a\"", request)
            }
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial)).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == Self.body && Self.ranges(trial) == [nil, "bytes=30000-", nil])
        }
    }

    @Test func changedRepresentationStartsOver() async throws {
        let other = Array(Self.body[..<10_000].reversed())
        try await DurableTrial.run { request in
            request.number == 1
                ? .stopShort(200, Self.tagged, body: Self.body, after: 30_000) : .part(of: other, tag: "\"b\"", request)
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial, sha256: Self.sha256(other))).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == other, "no byte of the longer file is left")
        }
    }

    @Test(arguments: [[:], ["ETag": "W/\"a\""], ["ETag": "\"a\"", "Accept-Ranges": "none"]])
    func serverWithoutRangesStartsOver(headers: [String: String]) async throws {
        try await DurableTrial.run { request in
            request.number == 1 ? .stopShort(200, headers, body: Self.body, after: 30_000) : .respond(200, headers, body: Self.body)
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial)).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == Self.body && Self.ranges(trial) == [nil, nil])
        }
    }

    @Test(arguments: DownloadScene.allCases) func wrongPartsAreNeverJoined(scene: DownloadScene) async throws {
        try await DurableTrial.run {
            scene.reply(to: $0)
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial, sha256: nil)).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == scene.file)
        }
    }

    /// In each attempt's own life, also after a restart of the process.
    @Test(arguments: CutScene.allCases) func progressIsNoFailure(scene: CutScene) async throws {
        try await DurableTrial.run {
            scene.reply(to: $0)
        } _: { trial in
            let policy = RetryPolicy.steady.giveUpAfter(maxAttempts: 2)
            var life = trial.launch(policy: policy)
            let id = try await life.queue.push(try Self.download(trial, sha256: nil)).id
            for _ in 0..<scene.failures {
                try await life.failure()
                await life.stop()
                await trial.world.clock.advance(by: .seconds(1))
                life = trial.launch(policy: policy)
            }
            let job = try await life.end(of: id)
            await life.stop()
            #expect(
                job.state == (scene == .continues ? .succeeded : .failed) && job.counters.charged == (scene == .continues ? 0 : 2))
            if scene == .continues { #expect(try Self.contents(trial) == CutScene.file) }
        }
    }

    @Test func packedFileIsRefused() async throws {
        try await DurableTrial.run { _ in
            .packed
        } _: { trial in
            let job = try await trial.end(of: try Self.download(trial, sha256: nil))
            #expect(job.state == .failed && job.lastError?.contains("Content-Encoding: gzip") == true)
            #expect(trial.folder.names.isEmpty)
        }
    }

    @Test(arguments: WholeScene.allCases) func wholeIsProven(scene: WholeScene) async throws {
        try await DurableTrial.run {
            scene.reply(to: $0)
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial, sha256: nil)).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == scene.file)
        }
    }

    // MARK: - Expectations

    @Test(arguments: [204, 401, 404]) func finalStatusLeavesNothing(status: Int) async throws {
        try await DurableTrial.run { request in
            request.number == 1 ? .stopShort(200, Self.tagged, body: Self.body, after: 30_000) : .respond(status)
        } _: { trial in
            let job = try await trial.end(of: try Self.download(trial))
            #expect(job.state == .failed && job.lastError?.contains("status \(status)") == true)
            #expect(trial.folder.names.isEmpty)
        }
    }

    @Test func otherLengthEndsTheJobBeforeTheFirstByte() async throws {
        try await DurableTrial.run { _ in
            .respond(200, Self.tagged, body: Self.body)
        } _: { trial in
            let wrote = Rendezvous<Int64>(0)
            let job = try await trial.end(of: try Self.download(trial, length: 99_999), Self.written(wrote))
            #expect(job.state == .failed && wrote.value == 0 && trial.server.requests.count == 1)
            #expect(job.lastError?.hasPrefix("the server's file has 100000 bytes instead of 99999; next: ") == true)
            #expect(trial.folder.names.isEmpty)
        }
    }

    /// The head of the response names no length.
    @Test func otherLengthEndsTheJobWithTheResponse() async throws {
        try await DurableTrial.run { _ in
            .respondUntilClose(200, body: Self.body)
        } _: { trial in
            let job = try await trial.end(of: try Self.download(trial, length: 100_001, sha256: nil))
            #expect(job.state == .failed && trial.server.requests.count == 1)
            #expect(job.lastError?.hasPrefix("the server's file has 100000 bytes instead of 100001; next: ") == true)
            #expect(trial.folder.names.isEmpty)
        }
    }

    @Test func bytesBeyondTheExpectedLengthAreNotWritten() async throws {
        try await DurableTrial.run { _ in
            .respondUntilClose(200, body: Self.body)
        } _: { trial in
            let wrote = Rendezvous<Int64>(0)
            let job = try await trial.end(of: try Self.download(trial, length: 50_000, sha256: nil), Self.written(wrote))
            #expect(job.state == .failed && wrote.value <= 50_000 && job.lastError?.contains("instead of 50000; next: ") == true)
            #expect(trial.folder.names.isEmpty)
        }
    }

    @Test func otherDigestEndsTheJob() async throws {
        try await DurableTrial.run { _ in
            .respond(200, Self.tagged, body: Self.body.reversed())
        } _: { trial in
            let job = try await trial.end(of: try Self.download(trial))
            #expect(job.state == .failed && trial.server.requests.count == 1 && job.lastError?.contains("SHA-256") == true)
            #expect(trial.folder.names.isEmpty)
        }
    }

    /// A server gives two representations the same tag.
    @Test func mixtureOfPartsStartsOver() async throws {
        try await DurableTrial.run { request in
            request.number == 1
                ? .stopShort(200, Self.tagged, body: Self.body.reversed(), after: 30_000)
                : .part(of: Self.body, tag: "\"a\"", request)
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial)).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial) == Self.body && Self.ranges(trial) == [nil, "bytes=30000-", nil])
        }
    }

    // MARK: - Files

    private struct Broken: Error {}

    @Test func failedHandlerFetchesNothingAgain() async throws {
        try await DurableTrial.run { _ in
            .respond(200, ["X-Name": "sea"], body: Self.body)
        } _: { trial in
            let names = Recorder<String?>()
            let life = trial.launch { queue in
                queue.registerDownloads(policy: DurableTrial.policy, options: trial.options) { _, response, attempt in
                    names.record(response.header("X-Name"))
                    if attempt.number < 3 { throw Broken() }
                }
            }
            let job = try await life.end(of: try await life.queue.push(try Self.download(trial)).id)
            #expect(job.state == .succeeded)
            #expect(trial.server.requests.count == 1 && names.value == ["sea", "sea", "sea"])
            #expect(trial.folder.names.count == 1)
            await life.stop()
        }
    }

    @Test func cancelledJobLeavesItsBytes() async throws {
        try await DurableTrial.run { _ in
            .stallAfter(200, Self.tagged, body: Self.body, count: 30_000)
        } _: { trial in
            let count = Rendezvous<Int64>(0)
            let life = trial.launch(Self.written(count))
            let download = try Self.download(trial)
            let id = try await life.queue.push(download).id
            try await count.wait { $0 == 30_000 }
            try await life.queue.cancel(id)
            #expect(try await life.end(of: id).state == .cancelled)
            await life.stop()
            #expect(trial.folder.names.count == 2)
            download.removePartialFiles(of: id)
            #expect(trial.folder.names.isEmpty)
        }
    }

    @Test func linkIsNotFollowed() async throws {
        try await DurableTrial.run { _ in
            .respond(200, body: Self.body)
        } _: { trial in
            let other = trial.folder.url.appendingPathComponent("other")
            try Data("precious".utf8).write(to: other)
            let process = trial.world.launch()
            let queue = JobQueue(process.store, bus: process.bus)
            let id = try await queue.push(try Self.download(trial)).id
            let part = trial.folder.url.appendingPathComponent(".file.\(id).part")
            try FileManager.default.createSymbolicLink(at: part, withDestinationURL: other)
            let life = trial.launch()
            let job = try await life.end(of: id)
            #expect(job.state == .failed && job.lastError?.contains("the destination cannot be written") == true)
            #expect(try String(contentsOf: other, encoding: .utf8) == "precious" && trial.server.requests.isEmpty)
            await life.stop()
        }
    }

    @Test func missingDirectoryEndsTheJob() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let file = trial.folder.url.appendingPathComponent("missing/file")
            let job = try await trial.end(of: try DurableDownload(try trial.url(), to: file))
            #expect(job.state == .failed && job.lastError?.contains("create it and retry the job") == true)
            #expect(trial.server.requests.isEmpty)
        }
    }

    @Test func emptyFileIsPutInPlace() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let state = try await trial.end(of: try Self.download(trial, length: 0, sha256: Self.sha256([]))).state
            #expect(state == .succeeded)
            #expect(try Self.contents(trial).isEmpty)
        }
    }

    @Test func impossibleDownloadsAreRefused() throws {
        let url = try #require(URL(string: "http://example.org"))
        let file = URL(fileURLWithPath: "/tmp/file")
        for (make, code) in [
            ({ try DurableDownload(url, to: file, headers: ["Range": "bytes=0-"]) }, "invalidHeader"),
            ({ try DurableDownload(url, to: URL(fileURLWithPath: "/")) }, "invalidPath"),
            ({ try DurableDownload(url, to: url) }, "invalidPath"),
            ({ try DurableDownload(url, to: file, sha256: "abc") }, "invalidDigest"),
        ] as [(() throws -> DurableDownload, String)] {
            let error = #expect(throws: DurableHTTPError.self) { _ = try make() }
            #expect(error?.code.rawValue == code)
        }
        let download = try DurableDownload(url, to: file, headers: ["A": "b"], length: 7, sha256: Self.digest.uppercased())
        #expect(try JSONDecoder().decode(DurableDownload.self, from: JSONEncoder().encode(download)) == download)
        #expect(download.sha256 == Self.digest)
    }
}
