import Dispatch
import Foundation
import MisbehavingServer
import Synchronization
import TestSupport
import Testing

/// A large durable download over a cable that is pulled, by a process that is killed.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct HTTPDownloadTests {
    /// The size in bytes; `DOWNLOAD_MEGABYTES=200` for the whole one.
    private static let size = (variable("DOWNLOAD_MEGABYTES") ?? 6) << 20
    private static let job = String(repeating: "0", count: 31) + "1"

    /// The position up to which the server may send.
    private final class Allowance: Sendable {
        private let state = Mutex((position: 0, waiting: [(value: Int, thread: DispatchSemaphore)]()))

        func raise(to position: Int) {
            let ready = state.withLock { state in
                state.position = position
                defer { state.waiting.removeAll { $0.value <= position } }
                return state.waiting.filter { $0.value <= position }
            }
            for (_, thread) in ready { thread.signal() }
        }

        /// Blocks the server's thread.
        func wait(for value: Int) {
            let thread = DispatchSemaphore(value: 0)
            let waits = state.withLock { state in
                if value > state.position { state.waiting.append((value, thread)) }
                return value > state.position
            }
            if waits { thread.wait() }
        }
    }

    private enum Cut {
        case cable, kill
    }

    /// Three pulled cables and two kills: what was written is not fetched again.
    @Test func cutsCostNoWrittenByte() async throws {
        let network = try await CabledNetwork.withFarEnd()
        let random = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/dev/urandom"))
        let body = [UInt8](try random.read(upToCount: Self.size) ?? Data())
        try #require(body.count == Self.size)
        // The server sends somewhat more than the test has seen, so that bytes are in flight at each cut.
        let allowance = Allowance()
        let server = try network.serve { .part(of: body, tag: "\"a\"", $0) { allowance.wait(for: $0) } }
        defer {
            allowance.raise(to: .max)
            server.stop()
        }
        let folder = try TemporaryFolder()
        let file = "\(folder.path)/file"

        /// The bytes on the disk at each cut.
        var written: [Int] = []
        var child = try network.request("durable", "192.0.2.1", file, Self.job)
        var lines = child.lines.makeAsyncIterator()
        for (number, cut) in [Cut.cable, .kill, .cable, .kill, .cable].enumerated() {
            let goal = Self.size * (number + 1) / 6
            allowance.raise(to: goal + Self.size / 12)
            var count = 0
            while count < goal, let line = await lines.next(isolation: #isolation) { count = Int(line) ?? count }
            try #require(count >= goal, "the process ended after \(count) bytes")
            switch cut {
            case .cable:
                // As after the end of a lease: the connection is lost, and the attempt is cut 5 s later.
                try await network.pull()
                try await network.near.ip("addr flush dev cable0")
                while let line = await lines.next(isolation: #isolation), line != "cut" { count = Int(line) ?? count }
                try await network.plug()
                try await network.addIPv4()
            case .kill:
                child.signal(SIGKILL)
                while let line = await lines.next(isolation: #isolation) { count = Int(line) ?? count }
                child = try network.request("durable", "192.0.2.1", file, Self.job)
                lines = child.lines.makeAsyncIterator()
            }
            written.append(count)
        }
        allowance.raise(to: .max)
        var last: String?
        while let line = await lines.next(isolation: #isolation) { last = line }
        #expect(last == "done")
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == Data(body), "the file differs")
        let firsts = server.requests.map { $0.firstByte ?? 0 }
        #expect(firsts.count == 6 && firsts.first == 0, "\(firsts)")
        for (first, count) in zip(firsts.dropFirst(), written) {
            #expect(first >= count, "byte \(first) was fetched again: \(written)")
        }
    }
}
