import ReachabilityTesting
import ReachableRetry
import Testing

@Test func uploadWaitsForCable() async throws {
    try await TestWorld().run { world in
        try world.network.pull("eth0")
        let upload = world.start { try await world.bus.retry { _ in world.clock.now.offset } }
        await world.clock.advance(by: .seconds(3600))
        #expect(world.bus.pending.map(\.state) == [.waiting])
        try world.network.plug("eth0")
        #expect(try await upload.value == .seconds(3600))
    }
}
