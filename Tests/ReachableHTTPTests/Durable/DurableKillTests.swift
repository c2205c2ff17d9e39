import Foundation
import MisbehavingServer
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

/// A durable download whose process is killed at random, without a chance to write anything.
@Suite(.timeLimit(.minutes(20))) struct DurableKillTests {
    private struct Output: Sendable {
        var lines = 0
        /// The number of bytes on the disk that the process has reported last.
        var written = 0
        var end: String?
    }

    /// The process `http-probe`, whose lines are read as they come.
    private final class Probe: Sendable {
        let output = Rendezvous(Output())
        private let process: Process

        init(_ url: String, _ file: URL, job: String) throws {
            process = Process([builtProgram("http-probe"), "durable", url, file.path, job])
            let pipe = Pipe()
            process.standardOutput = pipe
            let rest = Rendezvous("")
            pipe.fileHandleForReading.readabilityHandler = { [output] handle in
                let data = handle.availableData
                guard !data.isEmpty else {
                    handle.readabilityHandler = nil
                    return output.change { $0.end = $0.end ?? "killed" }
                }
                rest.change { $0 += String(decoding: data, as: UTF8.self) }
                var lines = rest.value.components(separatedBy: "\n")
                let last = lines.removeLast()
                rest.change { $0 = last }
                output.change { output in
                    output.lines += lines.count
                    for line in lines where line != "started" && line != "cut" {
                        if let count = Int(line) { output.written = count } else { output.end = line }
                    }
                }
            }
            try process.run()
        }

        func kill() { process.kill() }
    }

    /// Each response stalls after a random part; somewhere within it the process is killed.
    @Test(arguments: 1...3) func killsCostNoWrittenByte(seed: UInt64) async throws {
        let random = Mutex(SeededGenerator(seed: seed))
        func draw(_ range: ClosedRange<Int>) -> Int { random.withLock { Int.random(in: range, using: &$0) } }
        let body = (0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 7) }
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("file")
        // The first and the last byte of each response.
        let parts = Rendezvous<[ClosedRange<Int>]>([])
        let server = try MisbehavingServer { request in
            let first = request.headers["if-range"] == "\"a\"" ? request.firstByte ?? 0 : 0
            let count = min(body.count - first, random.withLock { Int.random(in: 0...400_000, using: &$0) })
            parts.change { $0.append(first...first + count) }
            let head = ["ETag": "\"a\"", "Content-Range": "bytes \(first)-\(body.count - 1)/\(body.count)"]
            return .stallAfter(first > 0 ? 206 : 200, head, body: Array(body[first...]), count: count)
        }
        defer { server.stop() }
        let job = String(repeating: "0", count: 31) + "1"
        var (written, kills, end) = (0, 0, String?.none)
        while end == nil || end == "killed" {
            let probe = try Probe("http://127.0.0.1:\(server.port)/", file, job: job)
            let known = parts.value.count
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await parts.wait { $0.count > known } }
                group.addTask { try await probe.output.wait { $0.end != nil } }
                try await group.next()
                group.cancelAll()
            }
            if let part = parts.value.dropFirst(known).first {
                #expect(part.lowerBound >= written, "seed \(seed): a byte on the disk is fetched again")
                let goal = part.upperBound == body.count ? body.count : draw(part)
                try await probe.output.wait { $0.written >= goal || goal == part.lowerBound || $0.end != nil }
                if goal == body.count { try await probe.output.wait { $0.end != nil } }
            }
            probe.kill()
            try await probe.output.wait { $0.end != nil }
            written = max(written, probe.output.value.written)
            (end, kills) = (probe.output.value.end, kills + 1)
            try #require(kills < 1000)
        }
        #expect(end == "done" && kills > 3, "seed \(seed)")
        #expect(try Data(contentsOf: file) == Data(body), "seed \(seed), \(kills) kills")
        #expect(folder.names.count == 1 && written == body.count)
    }
}
