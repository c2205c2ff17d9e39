import ReachabilityTesting
import ReachableJobs
import SyncEngine
import Testing

/// A synchronization survives the ends of its process and of the machine.
@Suite(.timeLimit(.minutes(5))) struct CrashTests {
    @Test func killedUploadIsRepeatedWithItsKey() async throws {
        try await inWorld { world, server, program in
            await server.next { try await world.clock.sleep(for: .seconds(3600)) }
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(5))
            await program.process.kill()

            let next = await Program(world, server)
            await world.settle()
            #expect(await server.times("sea.jpg") == [0, 5])
            #expect(Set(await server.attempts.map(\.key)).count == 1)
            let job = try await next.job("sea.jpg")
            #expect(job?.state == .succeeded && job?.counters.crashes == 1)
        }
    }

    @Test func rebootKeepsPhotosAndServerDelay() async throws {
        try await inWorld { world, server, program in
            await server.next { throw Refusal(status: 503, retryAfter: .seconds(30)) }
            try await program.add(Photo("sea.jpg"))
            await world.clock.advance(by: .seconds(5))
            await world.reboot()

            let next = await Program(world, server)
            await world.clock.advance(by: .seconds(3600))
            #expect(await server.times("sea.jpg") == [0, 30])
            let job = try await next.job("sea.jpg")
            #expect(job?.state == .succeeded && job?.counters.crashes == 0)
        }
    }
}
