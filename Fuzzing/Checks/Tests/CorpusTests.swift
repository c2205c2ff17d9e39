import Foundation
import Testing

@testable import Reachability

/// Replays the corpora to the functions of the fuzzers.
@Suite(.timeLimit(.minutes(10))) struct CorpusTests {
    @Test(arguments: ["frames", "recordings", "arguments"]) func corpusExists(_ target: String) {
        let files = CorpusFile.all(of: target)
        #expect((10..<300).contains(files.count), "\(files.count) files")
        #expect(files.reduce(0) { $0 + $1.bytes.count } < 300_000)
    }

    @Test(arguments: CorpusFile.all(of: "frames")) func frameBreaksNoRule(_ file: CorpusFile) throws {
        try FrameChecks.check(file.bytes)
    }

    @Test(arguments: CorpusFile.all(of: "recordings")) func recordingBreaksNoRule(_ file: CorpusFile) async throws {
        try await RecordingChecks.check(file.bytes)
    }

    @Test(arguments: CorpusFile.all(of: "arguments")) func argumentBreaksNoRule(_ file: CorpusFile) throws {
        try ArgumentChecks.check(file.bytes)
    }

    /// The corpus has a message of each kind that the decoder knows.
    @Test func framesCoverAllKinds() {
        var kinds: Set<String> = []
        for file in CorpusFile.all(of: "frames") {
            for event in file.bytes.withUnsafeBytes({ FrameChecks.read($0) }).events {
                let text = String(describing: event.payload)
                kinds.insert(String(text.prefix { $0 != "(" }))
            }
        }
        let all: Set = [
            "link", "linkRemoved", "address", "addressRemoved", "route", "rule", "nexthop", "netconf", "overrun",
        ]
        #expect(kinds == all)
    }

    @Test(arguments: CorpusFile.all(of: "frames").filter { $0.isOneEvent })
    func truncatedMessageIsMalformed(_ file: CorpusFile) {
        for length in 1..<file.bytes.count {
            let batch = file.bytes.prefix(length).withUnsafeBytes { FrameChecks.read($0) }
            #expect(batch.malformed == 1 && batch.events.isEmpty, "\(length) of \(file.bytes.count) bytes")
        }
    }

    @Test(arguments: CorpusFile.all(of: "recordings").filter { $0.bytes.count < 2000 })
    func truncatedRecordingKeepsItsBeginning(_ file: CorpusFile) async throws {
        let sealed = RecordingChecks.sealed(file.bytes)
        guard let network = try? RecordedNetwork(sealed) else { return }
        let whole = await RecordingChecks.batches(network)
        for length in stride(from: 24, to: sealed.count, by: 13) {
            guard let network = try? RecordedNetwork(Array(sealed.prefix(length))) else { continue }
            let part = await RecordingChecks.batches(network)
            // The last batch of a file by rtmon may have lost some of its events.
            #expect(whole.starts(with: part.dropLast()) && part.count <= whole.count, "\(length) of \(sealed.count) bytes")
        }
    }
}

/// An input from a corpus.
struct CorpusFile: Sendable, CustomTestStringConvertible {
    let bytes: [UInt8]
    let testDescription: String

    /// Returns the files of a fuzzer in the order of their names.
    static func all(of target: String) -> [CorpusFile] {
        let fuzzing = (0..<3).reduce(URL(fileURLWithPath: #filePath)) { path, _ in path.deletingLastPathComponent() }
        let folder = fuzzing.appendingPathComponent("Corpus/\(target)")
        let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        return files.sorted { $0.lastPathComponent < $1.lastPathComponent }.compactMap { file in
            (try? Data(contentsOf: file)).map { CorpusFile(bytes: Array($0), testDescription: file.lastPathComponent) }
        }
    }

    /// True if the file is one whole message with an event.
    var isOneEvent: Bool {
        let batch = bytes.withUnsafeBytes { FrameChecks.read($0) }
        guard batch.events.count == 1, batch.malformed == 0, bytes.count >= 16 else { return false }
        return bytes.withUnsafeBytes { Int($0.loadUnaligned(as: UInt32.self)) } == bytes.count
    }
}
