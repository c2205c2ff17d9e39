import Foundation
import MisbehavingServer
import Synchronization

/// The stored files, and the answers to requests.
final class Store: Sendable {
    private let directory: URL
    private let token: String?
    /// The number of requests that are still refused.
    private let busy: Mutex<Int>

    init(_ directory: URL, token: String?, busy: Int) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        (self.directory, self.token) = (directory, token)
        self.busy = Mutex(busy)
    }

    func answer(_ request: Request) -> Reply {
        let (status, reply) = decide(request)
        say("\(request.method) \(request.path) \(status)")
        return reply
    }

    private func decide(_ request: Request) -> (Int, Reply) {
        if isBusy { return (503, .respond(503, ["Retry-After": "1"])) }
        if let token, request.headers["authorization"] != "Bearer \(token)" { return (401, .respond(401)) }
        switch request.method {
        case "GET": return (200, .respond(200, [:], names.map { "\($0)\n" }.joined()))
        case "PUT": return keep(request)
        default: return (405, .respond(405))
        }
    }

    private var isBusy: Bool {
        busy.withLock { busy in
            defer { busy = max(0, busy - 1) }
            return busy > 0
        }
    }

    private var names: [String] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: directory.path)
        return (names ?? []).filter { !$0.hasPrefix(".") }.sorted()
    }

    private func keep(_ request: Request) -> (Int, Reply) {
        let name = String(request.path.dropFirst()).removingPercentEncoding ?? ""
        guard !name.isEmpty, !name.hasPrefix("."), !name.contains("/") else { return (400, .respond(400)) }
        do {
            try Data(request.body).write(to: directory.appendingPathComponent(name), options: .atomic)
            return (201, .respond(201))
        } catch {
            return (500, .respond(500))
        }
    }
}
