import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableJobs
import Synchronization
import TestSupport
import Testing

/// Durable uploads of real files, which change at the wrong moments.
@Suite(.timeLimit(.minutes(20))) struct DurableUploadTests {
    private static let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let sum = bytes.reduce(into: UInt64(0)) { $0 += UInt64($1) }

    /// A file that a server or a test changes.
    private struct File: Sendable {
        let url: URL

        init(_ folder: URL, _ bytes: [UInt8] = DurableUploadTests.bytes) throws {
            url = folder.appendingPathComponent("photo")
            try Data(bytes).write(to: url)
            try setModified(1_700_000_000)
        }

        func setModified(_ seconds: Double) throws {
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: seconds)], ofItemAtPath: url.path)
        }

        func change(_ change: Change) throws {
            switch change {
            case .append:
                let handle = try FileHandle(forWritingTo: url)
                try handle.seekToEnd()
                try handle.write(contentsOf: Data([1]))
                try handle.close()
                try setModified(1_700_000_000)
            case .modify: try setModified(1_700_000_000.5)
            case .replace:
                try FileManager.default.removeItem(at: url)
                try Data(DurableUploadTests.bytes.reversed()).write(to: url)
                try setModified(1_700_000_000)
            case .remove: try FileManager.default.removeItem(at: url)
            case .directory:
                try FileManager.default.removeItem(at: url)
                try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
            }
        }
    }

    enum Change: CaseIterable, Sendable { case append, modify, replace, remove, directory }

    @Test func fileIsSent() async throws {
        try await DurableTrial.run {
            $0.number == 1 ? .respond(503) : .respond(201, [:], "stored")
        } _: { trial in
            let file = try File(trial.folder.url)
            let seen = Mutex<Data?>(nil)
            let life = trial.launch { queue in
                queue.registerUploads(policy: DurableTrial.policy, options: trial.options) { _, response, _ in
                    seen.withLock { $0 = response.body }
                }
            }
            let upload = try DurableUpload(file.url, to: try trial.url("/photo"), idempotency: .job)
            #expect(upload.size == 300_000 && upload.options.isRepeatable)
            let job = try await life.end(of: try await life.queue.push(upload).id)
            #expect(job.state == .succeeded && job.kind == "http-upload" && seen.withLock { $0 } == Data("stored".utf8))
            #expect(trial.server.requests.map(\.sum) == [Self.sum, Self.sum])
            #expect(trial.server.requests.allSatisfy { $0.headers["idempotency-key"] == job.idempotencyKey })
            await life.stop()
        }
    }

    @Test(arguments: [
        (Change.append, "it had 300000 bytes and has 300001"), (.modify, "it was modified and still has 300000 bytes"),
        (.remove, "the file does not exist"), (.directory, "something else than a file"),
    ])
    func changedFileIsNotSent(change: Change, words: String) async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let file = try File(trial.folder.url)
            let upload = try DurableUpload(file.url, to: try trial.url())
            try file.change(change)
            let job = try await trial.end(of: upload)
            let text = try #require(job.lastError)
            #expect(job.state == .failed && text.contains(words) && text.contains("; next: "), "\(text)")
            #expect(!text.contains(file.url.path) && trial.server.requests.isEmpty)
        }
    }

    /// The server changes the file when it has all of it, and accepts it.
    @Test(arguments: [Change.append, .modify])
    func fileThatChangesWhileSentIsNoSuccess(change: Change) async throws {
        let file = Mutex<File?>(nil)
        try await DurableTrial.run { _ in
            try? file.withLock { $0 }?.change(change)
            return .respond(200)
        } _: { trial in
            let own = try File(trial.folder.url)
            file.withLock { $0 = own }
            let job = try await trial.end(of: try DurableUpload(own.url, to: try trial.url()))
            let text = try #require(job.lastError)
            #expect(job.state == .failed && text.contains("changed while it was sent"), "\(text)")
            #expect(trial.server.requests.count == 1)
        }
    }

    /// The server has the whole file as it was.
    @Test(arguments: [Change.remove, .replace]) func anotherFileInItsPlaceIsASuccess(change: Change) async throws {
        let file = Mutex<File?>(nil)
        try await DurableTrial.run { _ in
            try? file.withLock { $0 }?.change(change)
            return .respond(200)
        } _: { trial in
            let own = try File(trial.folder.url)
            file.withLock { $0 = own }
            let state = try await trial.end(of: try DurableUpload(own.url, to: try trial.url())).state
            #expect(state == .succeeded)
        }
    }

    @Test func changeBetweenAttemptsEndsTheJob() async throws {
        let file = Mutex<File?>(nil)
        try await DurableTrial.run { _ in
            try? file.withLock { $0 }?.change(.append)
            return .respond(503)
        } _: { trial in
            let own = try File(trial.folder.url)
            file.withLock { $0 = own }
            let job = try await trial.end(of: try DurableUpload(own.url, to: try trial.url()))
            #expect(job.state == .failed && job.lastError?.contains("it had 300000 bytes") == true)
            #expect(trial.server.requests.count == 1)
        }
    }

    /// Foundation would wait for the missing bytes until the server gives up.
    @Test func fileThatShrinksWhileSentEndsTheJob() async throws {
        let file = Mutex<File?>(nil)
        let large = 8_000_000
        let cut: @Sendable (Request, Int) -> Void = { _, count in
            guard count < 1_000_000, let file = file.withLock({ $0.take() }) else { return }
            truncate(file.url.path, 1_000_000)
        }
        try await DurableTrial.run(progress: cut) { _ in
            .respond(200)
        } body: { trial in
            let own = try File(trial.folder.url, Array(repeating: 7, count: large))
            file.withLock { $0 = own }
            let upload = try DurableUpload(own.url, to: try trial.url())
            let configuration = URLSessionConfiguration.ephemeral
            configuration.timeoutIntervalForRequest = 10
            let session = URLSession(configuration: configuration)
            let job = try await trial.end(of: upload) { $0.session = session }
            #expect(job.state == .failed && job.lastError?.contains("it had 8000000 bytes and has 1000000") == true)
        }
    }

    @Test func uploadSurvivesACrash() async throws {
        try await DurableTrial.run {
            $0.number == 1 ? .stall : .respond(200)
        } _: { trial in
            let file = try File(trial.folder.url)
            let first = trial.launch()
            let id = try await first.queue.push(try DurableUpload(file.url, to: try trial.url())).id
            try await trial.server.untilRequests(1)
            await first.kill()
            let second = trial.launch()
            #expect(try await second.end(of: id).state == .succeeded)
            #expect(trial.server.requests.last?.sum == Self.sum)
            await second.stop()
        }
    }

    @Test func symbolicLinkLeadsToItsFile() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let file = try File(trial.folder.url)
            let link = trial.folder.url.appendingPathComponent("link")
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file.url)
            let state = try await trial.end(of: try DurableUpload(link, to: try trial.url())).state
            #expect(state == .succeeded)
            #expect(trial.server.requests.map(\.length) == [Self.bytes.count])
        }
    }

    @Test func emptyFileIsSent() async throws {
        try await DurableTrial.run { _ in
            .respond(200)
        } _: { trial in
            let file = try File(trial.folder.url, [])
            let state = try await trial.end(of: try DurableUpload(file.url, to: try trial.url())).state
            #expect(state == .succeeded)
            #expect(trial.server.requests.map(\.length) == [0] && trial.server.requests[0].method == "PUT")
        }
    }

    @Test func onlyFilesAreAccepted() throws {
        let folder = try TemporaryFolder()
        let url = try #require(URL(string: "http://example.org"))
        let fifo = folder.url.appendingPathComponent("fifo")
        #expect(mkfifo(fifo.path, 0o600) == 0)
        for (file, code) in [
            (folder.url.appendingPathComponent("none"), "fileMissing"), (folder.url, "fileUnreadable"), (fifo, "fileUnreadable"),
            (url, "invalidPath"),
        ] {
            let error = #expect(throws: DurableHTTPError.self) { _ = try DurableUpload(file, to: url) }
            #expect(error?.code.rawValue == code)
        }
    }

    @Test func storedFormStaysTheSame() throws {
        let folder = try TemporaryFolder()
        let file = try File(folder.url, [1, 2, 3])
        let upload = try DurableUpload(file.url, to: try #require(URL(string: "https://example.org/a")))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let text = String(decoding: try encoder.encode(upload), as: UTF8.self)
        #expect(
            text == """
                {"file":{"nanoseconds":0,"seconds":1700000000,"size":3},"headers":{},"idempotency":"automatic",\
                "method":"PUT","path":"\(file.url.path)","url":"https://example.org/a"}
                """)
        #expect(try JSONDecoder().decode(DurableUpload.self, from: Data(text.utf8)) == upload)
    }
}
