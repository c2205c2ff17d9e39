import Foundation
import ReachabilityTesting
import ReachableFleet
import ReachableJobs
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct NASTests {
    @Test func backupsWaitForTheNAS() async throws {
        try await TestWorld().run { world in
            let (fleet, nas, server) = (SimulatedFleet(world), try FleetName("nas"), TestServer())
            let member = try fleet.member(nil)
            let queue = JobQueue(world.store, bus: world.bus)
            queue.registerBackups(server, when: member.condition(for: nas))
            world.start { await member.run() }
            world.start { await queue.run() }
            let backup = BackUp(file: "/home/ann/notes.db", server: try #require(URL(string: "http://192.0.2.20/")))
            try await queue.push(backup)
            await world.clock.advance(by: .seconds(3600))
            #expect(server.files.isEmpty, "the NAS is away")

            fleet.say(.online, of: nas)
            await world.settle()
            #expect(server.files == ["/home/ann/notes.db"], "at once")

            fleet.say(.lost, of: nas)
            try await queue.push(backup)
            fleet.stopBroker()
            await world.clock.advance(by: .seconds(30))
            fleet.startBroker()
            await world.clock.advance(by: .seconds(3600))
            #expect(server.files.count == 1, "the NAS is still away")

            fleet.stopBroker()
            await world.clock.advance(by: .seconds(61))
            #expect(server.files.count == 2, "without a broker the word of the NAS counts for a minute")
            #expect(try await queue.jobs().allSatisfy { $0.state == .succeeded && $0.counters.started == 1 })
            await queue.shutdown()
        }
    }
}

/// A server that stores at once.
private final class TestServer: BackupServer {
    private let log = Mutex<[String]>([])

    var files: [String] { log.withLock { $0 } }

    func store(_ backup: BackUp, key: String) async throws { log.withLock { $0.append(backup.file) } }
}
