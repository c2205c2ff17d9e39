import ReachabilityTesting
import ReachableJobs
import SyncEngine
import Testing

/// Attempts start at exact times.
@Suite(.timeLimit(.minutes(5))) struct BackoffTests {
    private static let fails: FakeServer.Act = { throw ConnectionLost() }

    @Test func delaysDouble() async throws {
        try await inWorld { world, server, program in
            await server.next(Self.fails, Self.fails, Self.fails)
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(60))
            #expect(await server.times("sea.jpg") == [0, 1, 3, 7])
        }
    }

    @Test func reconnectKeepsServerDelay() async throws {
        try await inWorld { world, server, program in
            await server.next { throw Refusal(status: 503, retryAfter: .seconds(30)) }
            try await program.add(Photo("sea.jpg"))
            await world.settle()
            try world.network.pull("eth0")
            try world.network.plug("eth0")
            await world.clock.advance(by: .milliseconds(29_999))
            #expect(await server.times("sea.jpg") == [0])
            await world.clock.advance(by: .milliseconds(1))
            #expect(await server.times("sea.jpg") == [0, 30])
        }
    }

    @Test func tenFailuresGiveUpPhoto() async throws {
        try await inWorld { world, server, program in
            await server.next(Array(repeating: Self.fails, count: 10))
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(3600))
            let job = try await program.job("sea.jpg")
            #expect(job?.state == .failed && job?.failureReason == "attempts" && job?.counters.charged == 10)
        }
    }

    @Test func refusedPhotoIsNotTriedAgain() async throws {
        try await inWorld { world, server, program in
            await server.next { throw Refusal(status: 415) }
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(3600))
            let job = try await program.job("sea.jpg")
            #expect(job?.state == .failed && job?.lastError == "status 415")
            #expect(await server.times("sea.jpg") == [0])
        }
    }
}
