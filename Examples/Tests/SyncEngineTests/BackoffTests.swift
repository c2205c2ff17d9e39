import ReachabilityTesting
import ReachableRetry
import SyncEngine
import Testing

/// Attempts start at exact times.
@Suite(.timeLimit(.minutes(5))) struct BackoffTests {
    private static let fails: FakeServer.Act = { throw ConnectionLost() }

    @Test func delaysDouble() async throws {
        let world = try await World()
        await world.server.next(Self.fails, Self.fails, Self.fails)
        async let report = world.engine.sync([Photo("sea.jpg")])
        for delay in [1, 2, 4] {
            #expect(try await world.bus.parked("sea.jpg").softDelay == .seconds(delay))
            world.clock.advance(by: .seconds(delay) - .milliseconds(1))
            #expect(try await world.bus.parked("sea.jpg").softDelay == .milliseconds(1), "not 1 ms earlier")
            world.clock.advance(by: .milliseconds(1))
        }
        #expect(try await report.stored == ["sea.jpg"])
        #expect(await world.server.times("sea.jpg") == [0, 1, 3, 7])
    }

    @Test func reconnectEndsDelay() async throws {
        let world = try await World()
        await world.server.next(Self.fails)
        async let report = world.engine.sync([Photo("sea.jpg")])
        try await world.bus.parked("sea.jpg")
        world.clock.advance(by: .milliseconds(200))
        try world.network.pull("eth0")
        try world.network.plug("eth0")
        #expect(try await report.stored == ["sea.jpg"])
        #expect(await world.server.times("sea.jpg") == [0, 0.2])
    }

    @Test func reconnectKeepsServerDelay() async throws {
        let world = try await World()
        await world.server.next { throw Refusal(status: 503, retryAfter: .seconds(30)) }
        async let report = world.engine.sync([Photo("sea.jpg")])
        #expect(try await world.bus.parked("sea.jpg").reason == "the server ordered a delay of 30 s")
        try world.network.pull("eth0")
        try world.network.plug("eth0")
        world.clock.advance(by: .milliseconds(29_999))
        #expect(try await world.bus.parked("sea.jpg").hardDelay == .milliseconds(1))
        world.clock.advance(by: .milliseconds(1))
        #expect(try await report.stored == ["sea.jpg"])
        #expect(await world.server.times("sea.jpg") == [0, 30])
    }

    @Test func tenFailuresGiveUpPhoto() async throws {
        let world = try await World()
        await world.server.next(Array(repeating: Self.fails, count: 10))
        async let report = world.engine.sync([Photo("sea.jpg")])
        for _ in 1...9 {
            let delay = try #require(try await world.bus.parked("sea.jpg").softDelay)
            world.clock.advance(by: delay)
        }
        let result = try await report
        #expect(result.stored.isEmpty && result.failures["sea.jpg"] is ConnectionLost)
    }

    @Test func refusedPhotoIsNotTriedAgain() async throws {
        let world = try await World()
        await world.server.next { throw Refusal(status: 415) }
        let report = try await world.engine.sync([Photo("sea.jpg")])
        #expect(report.failures["sea.jpg"] as? Refusal == Refusal(status: 415))
        #expect(await world.server.times("sea.jpg") == [0])
    }
}
