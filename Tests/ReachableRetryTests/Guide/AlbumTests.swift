import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

actor FakeServer: PhotoServer {
    private var failures: [any Error]
    private(set) var stored: [String] = []

    init(failingWith failures: any Error...) { self.failures = failures }

    func store(_ photo: Photo) throws {
        if !failures.isEmpty { throw failures.removeFirst() }
        stored.append(photo.name)
    }
}

@Suite(.timeLimit(.minutes(20))) struct AlbumTests {
    @Test func anUploadSurvivesAPulledCable() async throws {
        try await TestWorld().run { world in
            let (album, server) = (Album(), FakeServer(failingWith: Refusal(status: 503, retryAfter: .seconds(30))))

            try world.network.pull("eth0")
            async let adding: Void = album.add(Photo(name: "sea.jpg"), to: server, over: world.bus)
            await world.clock.advance(by: .seconds(3600))  // an hour without network takes no time
            #expect(world.bus.pending.first?.unmet == ["internet"])

            try world.network.plug("eth0")
            await world.settle()
            #expect(world.bus.pending.first?.hardDelay == .seconds(30))

            try world.network.pull("eth0")
            try world.network.plug("eth0")
            await world.settle()
            #expect(world.bus.pending.first?.hardDelay == .seconds(30))  // a reconnect does not overrule the server

            await world.clock.advance(by: .seconds(30))
            try await adding
            #expect(await server.stored == ["sea.jpg"])
        }
    }
}
