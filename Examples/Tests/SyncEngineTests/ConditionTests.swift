import Reachability
import ReachabilityTesting
import ReachableJobs
import SyncEngine
import Testing

/// Photos wait for a login and for an unmetered network.
@Suite(.timeLimit(.minutes(5))) struct ConditionTests {
    @Test func noAttemptStartsWithoutLogin() async throws {
        try await inWorld { world, server, program in
            await program.login.use(nil)
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(3600))
            #expect(await server.attempts.isEmpty)
            await program.login.use("sesame")
            await world.settle()
            #expect(await server.times("sea.jpg") == [3600])
        }
    }

    @Test func rejectedTokenIsNotUsedAgain() async throws {
        try await inWorld { world, server, program in
            await server.next { throw Refusal(status: 401) }
            try await program.add(Photo("sea.jpg"))
            await world.settle()
            await program.login.use("sesame")
            await world.clock.advance(by: .seconds(3600))
            #expect(await server.times("sea.jpg") == [0])
            await program.login.use("open sesame")
            await world.settle()
            #expect(await server.times("sea.jpg") == [0, 3600])
        }
    }

    /// A modem replaces the cable.
    @Test func largePhotosWaitForUnmeteredNetwork() async throws {
        try await inWorld { world, server, program in
            await program.untilUnmetered(true)
            try world.network.pull("eth0")
            await program.untilUnmetered(false)
            try world.network.removeRoute(to: "default")
            try world.network.addLink("wwan0", kind: .cellular)
            try world.network.addAddress("wwan0", "198.51.100.10/24")
            try world.network.addRoute(to: "default", via: "198.51.100.1", dev: "wwan0", metric: 700)
            try await program.add(Photo("film.mov", size: 5_000_000), Photo("sea.jpg", size: 200_000))
            await world.clock.advance(by: .seconds(60))
            #expect(await server.stored.map(\.name) == ["sea.jpg"])

            try world.network.plug("eth0")
            try world.network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0")
            await program.untilUnmetered(true)
            await world.clock.advance(by: .seconds(60))
            #expect(Set(await server.stored.map(\.name)) == ["film.mov", "sea.jpg"])
        }
    }
}

extension Program {
    /// Suspends until the condition, which follows the path in its own task, has changed.
    fileprivate func untilUnmetered(_ isUnmetered: Bool) async {
        for await state in unmetered.updates where state.isSatisfied == isUnmetered { return }
    }
}
