#if SQLite
import CommandKit
import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import TestSupport
import Testing

@testable import reachability_service

/// The queue as the service shows it.
@Suite(.timeLimit(.minutes(10)), .blocking) struct QueueViewTests {
    @Test func waitingJobsAreShownWithoutTheirArguments() async throws {
        let desk = try QueueDesk()
        let secret = "swordfish-\(desk.store.count)"
        let failed = try desk.add("echo \(secret); exit 3", "--attempts", "1")
        #expect(try desk.run("run", "--drain").code == 0)
        let id = try desk.run("add", "--name", "backup", "--to", "192.0.2.7", "--", "/usr/bin/rsync", "--password", secret).id
        let view = QueueView(path: desk.store, ReachabilityMonitor(SimulatedNetwork.online()))
        let snapshot = try #require(await view.snapshot())
        #expect(snapshot.problem == nil && snapshot.counts[.available] == 1 && snapshot.counts[.failed] == 1)
        let text = snapshot.json.description
        #expect(text.contains("\"program\":\"rsync\"") && text.contains("\"name\":\"backup\"") && text.contains(id))
        #expect(text.contains("waits for a worker") && text.contains("\"scope\":\"192.0.2.7\""))
        #expect(text.contains(failed) && text.contains("\"exitCode\":3"))
        #expect(!text.contains(secret) && !text.contains(desk.directory + "\"") && !text.contains("/usr/bin"))
    }

    @Test func aMissingPathIsNamed() async throws {
        let desk = try QueueDesk()
        _ = try desk.run("add", "--to", "192.0.2.7", "--", "true")
        // With a worker the network decides.
        let store = try SQLiteStore(path: desk.store)
        _ = try await store.register(queue: "default", node: "elsewhere")
        try await TestWorld().run { world in
            try world.network.pull("eth0")
            let view = QueueView(path: desk.store, world.monitor)
            // The scope is watched from the first one on.
            _ = await view.snapshot()
            let reasons = try #require(await view.snapshot()).jobs.first?.waitingFor ?? []
            #expect(reasons.first?.contains("192.0.2.7") == true && reasons.first?.contains("eth0 has no carrier") == true)
        }
        withExtendedLifetime(store) {}
    }

    @Test func storesComeAndGo() async throws {
        let desk = try QueueDesk()
        let view = QueueView(path: desk.store, ReachabilityMonitor(SimulatedNetwork.online()))
        #expect(await view.snapshot() == nil)
        _ = try desk.add("true")
        #expect(try #require(await view.snapshot()).counts[.available] == 1)
        try FileManager.default.removeItem(atPath: "\(desk.directory)/q")
        #expect(await view.snapshot() == nil)
        try desk.folder.write("not a database at all, but a text", to: "q/queue.db")
        #expect(await view.snapshot()?.problem?.contains("next: ") == true)
    }

    @Test func longQueuesAreCut() async throws {
        let desk = try QueueDesk()
        for _ in 0..<3 { _ = try desk.add("true") }
        let view = QueueView(path: desk.store, ReachabilityMonitor(SimulatedNetwork.online()))
        var snapshot = try #require(await view.snapshot())
        #expect(snapshot.json.description.contains("\"more\":false"))
        snapshot.jobs.removeLast()
        #expect(snapshot.json.description.contains("\"more\":true"))
    }
}
#endif
