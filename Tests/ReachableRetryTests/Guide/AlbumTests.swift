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

@Suite(.timeLimit(.minutes(5))) struct AlbumTests {
    @Test func anUploadSurvivesAPulledCable() async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        try await network.untilRunning()
        let bus = RetryBus(monitor, clock: clock)
        let (album, server) = (Album(), FakeServer(failingWith: Refusal(status: 503, retryAfter: .seconds(30))))

        try network.pull("eth0")
        async let adding: Void = album.add(Photo(name: "sea.jpg"), to: server, over: bus)
        #expect(try await bus.parked("sea.jpg").unmet == ["internet"])

        clock.advance(by: .seconds(3600))  // an hour without network takes no time
        try network.plug("eth0")
        #expect(try await bus.parked("sea.jpg").hardDelay == .seconds(30))

        try network.pull("eth0")
        try network.plug("eth0")
        #expect(try await bus.parked("sea.jpg").hardDelay == .seconds(30))  // a reconnect does not overrule the server

        clock.advance(by: .seconds(30))
        try await adding
        #expect(await server.stored == ["sea.jpg"])
    }
}
