import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// The raw and damped transitions of each scope of a monitor.
struct ReceivedTexts: Equatable {
    var transitions: [[String]] = []
    /// The comparable transitions: without the monitor's end and its blind start, and without the details of the paths.
    var withoutEnd: [[String]] = []
}

/// Runs a monitor to the end of its source, and returns its transitions.
func listen(
    to source: some NetworkSource, _ scopes: [Scope] = [.internet],
    while body: @Sendable (ReachabilityMonitor) async throws -> Void = { _ in }
) async throws -> ReceivedTexts {
    var configuration = ReachabilityMonitor.Configuration()
    configuration.bufferedTransitions = .max
    let monitor = ReachabilityMonitor(source, configuration: configuration)
    let streams = scopes.flatMap { [monitor.transitions(to: $0, raw: true), monitor.transitions(to: $0)] }
    let running = Task { try await monitor.run() }
    do {
        try await body(monitor)
    } catch {
        running.cancel()
        throw error
    }
    _ = try? await running.value
    var received = ReceivedTexts()
    for stream in streams {
        var transitions: [Transition] = []
        for await transition in stream { transitions.append(transition) }
        received.transitions.append(transitions.map(text))
        received.withoutEnd.append(
            transitions.filter { $0.cause.kind != .ended && $0.cause.kind != .blinded }.map { text($0.undescribed) })
    }
    return received
}

extension Transition {
    /// Returns the path without metrics and prefix lengths.
    fileprivate var undescribed: Transition {
        var transition = self
        for family in IPAddress.Family.allCases {
            (transition.current[family].metric, transition.current[family].prefixLength) = (nil, nil)
            transition.previous?[family].metric = nil
            transition.previous?[family].prefixLength = nil
        }
        return transition
    }
}

/// A session on a simulated network with random changes.
struct RandomSession {
    static let scopes = { () -> [Scope] in
        var bound = Scope.internet
        bound.interface = "eth1"
        return [.internet, .address(ip("1.1.1.1")), .address(ip("203.0.113.9")), bound, .host("nas.example")]
    }()

    let seed: UInt64

    /// Plays it, and returns the transitions and the recording.
    func run(_ steps: Int = 60) async throws -> (received: ReceivedTexts, recording: [UInt8]) {
        let collector = Recorder<UInt8>()
        let network = SimulatedNetwork.online()
        try network.setHost("nas.example", to: "203.0.113.7")
        var random = RandomEntries(seed: seed)
        network.setNameServers([.answers, .silent, .refuses][random.below(3)])
        let recorder = NetworkRecorder(network, scopes: Self.scopes) { collector.record(contentsOf: $0) }
        let received = try await listen(to: recorder, Self.scopes) { [random] monitor in
            try await network.untilRunning()
            var random = random
            for _ in 0..<steps { step(network, monitor, &random) }
            network.stop()
        }
        return (received, collector.value)
    }

    private func step(_ network: SimulatedNetwork, _ monitor: ReachabilityMonitor, _ random: inout RandomEntries) {
        let name = "eth\(random.below(2))"
        let isOn = random.bool()
        // The model rejects changes that do not fit its state.
        switch random.below(16) {
        case 0: _ = try? network.addLink("eth1")
        case 1: try? network.removeLink("eth1")
        case 2: try? network.setUp(name, isOn)
        case 3, 4: try? network.setCarrier(name, isOn)
        case 5: try? network.addAddress(name, name == "eth0" ? "192.0.2.10/24" : "198.51.100.10/24")
        case 6: try? network.removeAddress(name, name == "eth0" ? "192.0.2.10/24" : "198.51.100.10/24")
        case 7: try? network.addRoute(to: "default", via: name == "eth0" ? "192.0.2.1" : "198.51.100.1", dev: name, metric: 7)
        case 8: try? network.removeRoute(to: "default")
        case 9: try? network.changeSilently { try $0.setCarrier(name, isOn) }
        case 10: try? network.loseEvents { try $0.setUp(name, isOn) }
        case 11: network.suspend(for: .seconds(random.below(100)))
        case 12: network.failNextRequests(random.below(3), errno: 105)
        case 13: _ = try? monitor.path(to: Self.scopes[random.below(Self.scopes.count)])
        case 14: try? network.batch(hasMore: isOn) { try $0.setCarrier("eth0", !$0.interfaces[1].hasCarrier) }
        default: network.announceMalformed(1)
        }
        if random.below(8) == 0 { try? network.setHost("nas.example", to: isOn ? "203.0.113.7" : "203.0.113.9") }
        if random.below(8) == 0 { network.setNameServers([.answers, .silent, .refuses][random.below(3)]) }
        network.clock.advance(by: .microseconds(random.below([10, 5000, 400_000, 40_000_000][random.below(4)])))
    }
}
