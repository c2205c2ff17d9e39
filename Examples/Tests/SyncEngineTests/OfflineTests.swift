import ReachabilityTesting
import ReachableJobs
import SyncEngine
import Testing

/// A synchronization survives outages.
@Suite(.timeLimit(.minutes(5))) struct OfflineTests {
    @Test func noAttemptStartsOffline() async throws {
        try await inWorld { world, server, program in
            try world.network.pull("eth0")
            try await program.add(Photo("hill.jpg"), Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(3600))
            #expect(await server.attempts.isEmpty)

            try world.network.plug("eth0")
            await world.settle()
            #expect(await server.times("hill.jpg") == [3600], "at once, and once")
            #expect(await server.times("sea.jpg") == [3600])
        }
    }

    /// The cable is pulled during the upload.
    @Test func attemptEndedByOutageIsNotCharged() async throws {
        try await inWorld { world, server, program in
            await server.next {
                try world.network.pull("eth0")
                throw ConnectionLost()
            }
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(600))
            let counters = try await program.job("sea.jpg")?.counters
            #expect(counters?.started == 1 && counters?.charged == 0)

            try world.network.plug("eth0")
            await world.settle()
            #expect(await server.times("sea.jpg") == [0, 600])
        }
    }

    /// Ten charged attempts are allowed; these twenty outages are not charged.
    @Test func photoSurvivesManyOutages() async throws {
        try await inWorld { world, server, program in
            let outage: FakeServer.Act = {
                try world.network.pull("eth0")
                throw ConnectionLost()
            }
            await server.next(Array(repeating: outage, count: 20))
            try await program.add(Photo("sea.jpg"))
            for _ in 1...20 {
                await world.clock.advance(by: .seconds(60))
                try world.network.plug("eth0")
            }
            await world.settle()
            #expect(await server.times("sea.jpg") == (0...20).map { Double($0 * 60) })
            #expect(try await program.job("sea.jpg")?.state == .succeeded)
        }
    }

    @Test func onlyTheLastVersionIsSent() async throws {
        try await inWorld { world, server, program in
            try world.network.pull("eth0")
            try await program.add(Photo("sea.jpg", modified: 1), Photo("sea.jpg", modified: 2))
            try world.network.plug("eth0")
            await world.settle()
            #expect(await server.attempts.map(\.photo.modified) == [2])
        }
    }

    /// The small version is of another kind than the large one.
    @Test func versionsAreSentInOrder() async throws {
        try await inWorld { world, server, program in
            await server.next { throw ConnectionLost() }
            try await program.add(Photo("sea.jpg", size: 5_000_000, modified: 1))
            await world.settle()
            try await program.add(Photo("sea.jpg", size: 1000, modified: 2))
            await world.clock.advance(by: .seconds(60))
            #expect(await server.attempts.map(\.photo.modified) == [1, 1, 2])
        }
    }
}
