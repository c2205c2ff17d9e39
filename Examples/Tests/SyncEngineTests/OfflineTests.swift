import ReachabilityTesting
import ReachableRetry
import SyncEngine
import Testing

/// A synchronization survives outages.
@Suite(.timeLimit(.minutes(5))) struct OfflineTests {
    @Test func storedPhotoIsNotSentAgain() async throws {
        let world = try await World()
        await world.server.put("hill.jpg")
        let report = try await world.engine.sync([Photo("hill.jpg"), Photo("sea.jpg")])
        #expect(report.stored == ["sea.jpg"] && report.failures.isEmpty)
        #expect(await world.server.times("hill.jpg").isEmpty)
    }

    @Test func noAttemptStartsOffline() async throws {
        let world = try await World()
        try world.network.pull("eth0")
        async let report = world.engine.sync([Photo("hill.jpg"), Photo("sea.jpg")])
        let waiting = try await world.bus.parked("list")
        #expect(waiting.reason == "waits for the network: eth0 has no carrier (noCarrier)")

        world.clock.advance(by: .seconds(3600))
        #expect(await world.server.listings == 0)

        try world.network.plug("eth0")
        #expect(try await report.stored == ["hill.jpg", "sea.jpg"])
        #expect(await world.server.times("sea.jpg") == [3600], "at once, and once")
    }

    /// The cable is pulled during the upload.
    @Test func attemptEndedByOutageIsNotCharged() async throws {
        let world = try await World()
        await world.server.next {
            try world.network.pull("eth0")
            throw ConnectionLost()
        }
        async let report = world.engine.sync([Photo("sea.jpg")])
        let waiting = try await world.bus.parked("sea.jpg")
        #expect(waiting.state == .waiting && waiting.attempts == 1 && waiting.charged == 0)

        world.clock.advance(by: .seconds(600))
        try world.network.plug("eth0")
        #expect(try await report.stored == ["sea.jpg"])
        #expect(await world.server.times("sea.jpg") == [0, 600])
    }

    /// Ten charged attempts are allowed; these twenty outages are not charged.
    @Test func photoSurvivesManyOutages() async throws {
        let world = try await World()
        let outage: FakeServer.Act = {
            try world.network.pull("eth0")
            throw ConnectionLost()
        }
        await world.server.next(Array(repeating: outage, count: 20))
        async let report = world.engine.sync([Photo("sea.jpg")])
        for _ in 1...20 {
            try await world.bus.parked("sea.jpg")
            world.clock.advance(by: .seconds(60))
            try world.network.plug("eth0")
        }
        #expect(try await report.stored == ["sea.jpg"])
        #expect(await world.server.times("sea.jpg") == (0...20).map { Double($0 * 60) })
    }
}
