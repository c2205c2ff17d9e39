import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableJobs
import TestSupport
import Testing

/// The example of the page about durable requests.
@Suite(.timeLimit(.minutes(20))) struct DurableGuideTests {
    @Test func orderPhotoAndFilmArrive() async throws {
        let film = Array("film".utf8)
        try await DurableTrial.run { request in
            request.method == "GET" ? .respond(200, body: film) : .respond(201)
        } _: { trial in
            let server = try trial.url("")
            let life = trial.launch { queue in
                OrderService(server: server, token: { "t" }, queue: queue).register(session: trial.session)
            }
            let service = OrderService(server: server, token: { "t" }, queue: life.queue)
            let photo = trial.folder.url.appendingPathComponent("sea.jpg")
            try Data([1, 2, 3]).write(to: photo)
            try await service.order("boat", for: "customer 7")
            try await service.store(photo)
            try await service.fetch("a", sha256: DurableDownloadTests.sha256(film), to: trial.destination)
            let jobs = try await life.queue.jobs()
            for job in jobs { #expect(try await life.end(of: job.id).state == .succeeded) }
            #expect(jobs.map(\.serialKey) == ["customer 7", nil, nil])
            let requests = trial.server.requests.sorted { $0.path < $1.path }
            #expect(requests.map(\.path) == ["/films/a", "/orders", "/photos/sea.jpg"])
            #expect(requests.allSatisfy { $0.headers["authorization"] == "Bearer t" })
            #expect(requests.map { $0.headers["idempotency-key"] != nil } == [false, true, false])
            #expect(try Data(contentsOf: trial.destination) == Data(film))
            await life.stop()
        }
    }
}
