import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

/// The watched addresses that the source receives.
@Suite(.timeLimit(.minutes(10))) struct WatchedDestinationsTests {
    private static let representatives: Set<IPAddress> = [
        ip("198.41.0.4"), ip("193.0.14.129"), ip("192.5.5.241"), ip("1.1.1.1"), ip("64.6.64.6"), ip("45.90.28.0"),
        ip("2001:503:ba3e::2:30"), ip("2001:7fd::1"), ip("2801:1b8:10::b"), ip("2001:500:2f::f"),
    ]

    @Test func sourceWatchesAddressesBeforeTheirLookup() async throws {
        let network = WatchedNetwork()
        let monitor = ReachabilityMonitor(network)
        let early = monitor.condition(for: .address(ip("203.0.113.7")))
        let running = Task { try await monitor.run() }
        try await network.network.untilRunning()
        #expect(network.watched == [Self.representatives.union([ip("203.0.113.7")])])

        let later = monitor.condition(for: .address(ip("::ffff:203.0.113.8")))
        #expect(later.state.epoch == 1)
        #expect(network.watched.count == 2 && network.watched.last?.contains(ip("203.0.113.8")) == true)
        // The same addresses with another property.
        var marked = Scope.address(ip("203.0.113.8"))
        marked.mark = 7
        let again = monitor.condition(for: marked)
        #expect(again.state.epoch == 1 && network.watched.count == 2)
        withExtendedLifetime((early, later, again)) {}

        network.wake()
        running.cancel()
        try await running.value
        #expect(network.askedUnwatched.isEmpty)
    }

    @Test func releasedAddressesAreForgotten() async throws {
        let network = WatchedNetwork()
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.network.untilRunning()
        do {
            let condition = monitor.condition(for: .address(ip("203.0.113.7")))
            #expect(condition.state.isSatisfied)
        }
        network.wake()
        #expect(network.watched.count == 3 && network.watched.last == Self.representatives)
        running.cancel()
        try await running.value
    }

    @Test func lookupThatRacesWithARemovalIsRepeated() async throws {
        let network = WatchedNetwork()
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.network.untilRunning()
        network.races.store(1, ordering: .relaxed)
        network.network.announce(.rule(isRemoval: false))
        #expect(monitor.path.isSatisfied && network.races.load(ordering: .relaxed) == 0)
        running.cancel()
        try await running.value
    }
}
