import Reachability
import ReachabilityTesting
import ReachableRetry
import SyncEngine
import Testing

/// Photos wait for a login and for an unmetered network.
@Suite(.timeLimit(.minutes(5))) struct ConditionTests {
    @Test func noAttemptStartsWithoutLogin() async throws {
        let world = try await World()
        await world.login.use(nil)
        async let report = world.engine.sync([Photo("sea.jpg")])
        #expect(try await world.bus.parked("list").reason == "waits for condition 'logged in'")
        world.clock.advance(by: .seconds(3600))
        #expect(await world.server.listings == 0)
        await world.login.use("sesame")
        #expect(try await report.stored == ["sea.jpg"])
    }

    @Test func rejectedTokenIsNotUsedAgain() async throws {
        let world = try await World()
        await world.server.next { throw Refusal(status: 401) }
        async let report = world.engine.sync([Photo("sea.jpg")])
        #expect(try await world.bus.parked("sea.jpg").unmet == ["logged in"])
        await world.login.use("sesame")
        world.clock.advance(by: .seconds(3600))
        #expect(try await world.bus.parked("sea.jpg").attempts == 1)
        await world.login.use("open sesame")
        #expect(try await report.stored == ["sea.jpg"])
        #expect(await world.server.times("sea.jpg") == [0, 3600])
    }

    /// A modem replaces the cable.
    @Test func largePhotosWaitForUnmeteredNetwork() async throws {
        let world = try await World()
        await world.untilUnmetered(true)
        try world.network.pull("eth0")
        await world.untilUnmetered(false)
        try world.network.removeRoute(to: "default")
        try world.network.addLink("wwan0", kind: .cellular)
        try world.network.addAddress("wwan0", "198.51.100.10/24")
        try world.network.addRoute(to: "default", via: "198.51.100.1", dev: "wwan0", metric: 700)

        let events = world.bus.events
        async let report = world.engine.sync([Photo("film.mov", size: 5_000_000), Photo("sea.jpg", size: 200_000)])
        #expect(try await world.bus.parked("film.mov").unmet == ["unmetered"])
        for await event in events where event.kind == .succeeded && event.job == "sea.jpg" { break }

        try world.network.plug("eth0")
        try world.network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0")
        #expect(try await report.stored == ["film.mov", "sea.jpg"])
    }
}

extension World {
    /// Suspends until the condition, which follows the path in its own task, has changed.
    fileprivate func untilUnmetered(_ isUnmetered: Bool) async {
        for await state in unmetered.updates where state.isSatisfied == isUnmetered { return }
    }
}
