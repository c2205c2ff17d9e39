import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Network callbacks that end a backoff: grpc-java on Android, and Amplify's notifier.
@Suite(.timeLimit(.minutes(10))) struct NetworkCallbackTests {
    enum Step: String, Sendable {
        case eth0Up, eth0Down, wlan0Up, wlan0Down, takesWLAN, takesEthernet, again, shutdown

        func happen(to network: SimulatedNetwork) throws {
            switch self {
            case .eth0Up: try network.plug("eth0")
            case .eth0Down: try network.pull("eth0")
            case .wlan0Up: try network.plug("wlan0")
            case .wlan0Down: try network.pull("wlan0")
            case .takesWLAN: try network.replaceRoute(to: "default", via: "198.51.100.1", dev: "wlan0")
            case .takesEthernet: try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0")
            case .again: for _ in 1...3 { network.announce(.overrun) }
            case .shutdown: break
            }
        }
    }

    struct Walk: Sendable, CustomTestStringConvertible {
        var name: String
        var isOnline: Bool
        /// The number of started attempts after the submission and after each step.
        var submitted: Int
        var steps: [(Step, Int)]
        var testDescription: String { name }
    }

    // grpc-java resets its backoff for each new network and reconnects. Here each epoch does;
    // the first verdict is a baseline in both.
    private static let walks = [
        Walk(
            name: "starts offline", isOnline: false, submitted: 1,
            steps: [
                (.eth0Up, 2), (.wlan0Up, 2), (.takesWLAN, 3), (.wlan0Down, 3), (.eth0Down, 3), (.again, 3),
                (.takesEthernet, 3), (.eth0Up, 4), (.shutdown, 4), (.eth0Down, 4), (.eth0Up, 4),
            ]),
        // In grpc-java a second network counts when it appears, here when the route uses it.
        Walk(
            name: "starts online", isOnline: true, submitted: 1,
            steps: [(.again, 1), (.wlan0Up, 1), (.takesWLAN, 2), (.again, 2), (.takesEthernet, 3), (.wlan0Down, 3)]),
        Walk(
            name: "duplicates", isOnline: false, submitted: 1,
            steps: [
                (.eth0Up, 2), (.again, 2), (.eth0Down, 2), (.again, 2), (.wlan0Up, 2), (.eth0Up, 3), (.eth0Up, 3), (.shutdown, 3),
                (.eth0Down, 3), (.eth0Up, 3),
            ]),
    ]

    @Test(arguments: walks) func eachEpochEndsABackoffOnce(walk: Walk) async throws {
        let scenario = Scenario(online: walk.isOnline, release: .immediate)
        try scenario.network.addLink("wlan0", kind: .wireless, hasCarrier: false)
        try scenario.network.addAddress("wlan0", "198.51.100.10/24")
        try await scenario.run { scenario in
            let policy = RetryPolicy.peer(.constant(.seconds(1000)), attempts: nil).connectivity(.accelerate)
            await scenario.submit("job", policy, .fails(after: .zero))
            #expect(scenario.starts("job").count == walk.submitted)
            for (number, (step, expected)) in walk.steps.enumerated() {
                try await scenario.at(.seconds(10 * (number + 1))) { try step.happen(to: $0) }
                if step == .shutdown { await scenario.bus.shutdown(drain: nil) }
                let starts = scenario.starts("job")
                #expect(starts.count == expected, "\(step.rawValue), step \(number + 1): \(starts)")
            }
        }
    }

    private static let minute = RetryPolicy.peer(.constant(.seconds(60)), attempts: 2).connectivity(.accelerate)

    // Amplify's notifier fires once, for the earlier of timer and network.
    private static let notifier: [PeerCase] = [
        PeerCase(
            name: "the timer first", policy: minute, acts: [.fails(after: .zero)], isOnline: false, changes: [(70, .up)],
            starts: [0, 60], ends: 60, result: "other", reason: .attempts),
        PeerCase(
            name: "the network first", policy: minute, acts: [.fails(after: .zero), .ok(after: .seconds(200))], isOnline: false,
            changes: [(10, .up), (20, .echo), (30, .flap)], starts: [0, 10], ends: 210),
        PeerCase(
            name: "a loss is nothing", policy: minute, acts: [.fails(after: .zero)], changes: [(10, .down), (61, .up)],
            starts: [0, 60], ends: 60, result: "other", reason: .attempts),
    ]

    @Test(arguments: notifier) func earlierOfTimerAndReconnectCounts(peer: PeerCase) async throws { try await peer.check() }

    /// Amplify drops the first callback as the present state; without a replay that is the first reconnect.
    @Test func firstReconnectIsNoBaseline() async throws {
        let scenario = Scenario(online: false, release: .immediate)
        await scenario.submit("early", Self.minute, .fails(after: .zero), .ok())
        try await scenario.run { scenario in
            await scenario.submit("late", Self.minute, .fails(after: .zero), .ok())
            await scenario.advance(to: .seconds(5))
            #expect(scenario.starts("early") == [0], "the monitor's first word is the baseline")
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            #expect(scenario.starts("early") == [0, 10] && scenario.starts("late") == [0, 10])
        }
    }
}
