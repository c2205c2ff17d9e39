import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct BroadcastScaleTests {
    @Test func tenThousandSubscribersGetEveryTransitionInOrder() async throws {
        try await withMonitor { monitor, network, clock in
            let subscribers = 10_000
            let changes: UInt64 = 20
            let received = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<subscribers {
                    let stream = monitor.transitions(to: .internet, raw: true)
                    group.addTask {
                        var expected: UInt64 = 0
                        for await transition in stream {
                            guard transition.sequence == expected, transition.isBaseline == (expected == 0) else { return false }
                            expected += 1
                            if expected > changes { return true }
                        }
                        return false
                    }
                }
                #expect(monitor.usage == 2 * subscribers)
                // All have their baselines then.
                network.announce()
                for _ in 0..<changes / 2 {
                    try network.pull("eth0")
                    try network.plug("eth0")
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(received == subscribers)
            #expect(monitor.usage == 0)
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func subscribersCancelledAtRandomLeaveNothingBehind(seed: UInt64) async throws {
        try await withMonitor { monitor, network, clock in
            var generator = SeededGenerator(seed: seed)
            var tasks: [Task<Void, Never>] = []
            for number in 0..<10_000 {
                let scope = number % 3 == 0 ? Scope.internet : .address(ip("192.0.2.\(number % 200 + 20)"))
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: tasks.append(Task { for await _ in monitor.transitions(to: scope) {} })
                case 1: tasks.append(Task { for await _ in monitor.condition(for: scope).updates {} })
                default: tasks.append(Task { try? await monitor.waitUntilSatisfied(scope) })
                }
                if number % 1000 == 0 { try number % 2000 == 0 ? network.pull("eth0") : network.plug("eth0") }
            }
            tasks.shuffle(using: &generator)
            for task in tasks { task.cancel() }
            for task in tasks { await task.value }
            #expect(monitor.usage == 0, "seed \(seed)")
        }
    }
}
