import CBench
import Glibc
import Reachability

/// The library, with a stamp at one of the stations between the kernel and a listener; started by `bench`.
///
/// One station in a process: the others would be in its way.
@main
enum Listener {
    static func main() async throws {
        switch CommandLine.arguments.dropFirst().first {
        case "callback": try await callback()
        case "condition": try await condition()
        case "delivered": try await delivered()
        case "executor": try await executor()
        case "executor-updates": try await executorUpdates()
        case "executor-stream": try await executorStream()
        case "stream": try await stream()
        case "view": try await view()
        case "first-verdict": try await firstVerdict()
        default:
            print("a peer of the benchmark; it is started by `bench`")
            exit(64)
        }
    }

    /// Stamps when the reader's thread has decoded an event, before any lookup.
    private static func callback() async throws {
        let stamps = Stamps()
        try await KernelNetwork().run { batch in
            if !batch.events.isEmpty { stamps.stamp() }
            return nil
        }
    }

    /// The monitor has asked and decided, and calls a condition's observer: what a waiting job is started by.
    private static func condition() async throws {
        let stamps = Stamps()
        let monitor = ReachabilityMonitor()
        let condition = monitor.condition(for: .internet)
        let observer = condition.storage.observe { stamps.note(condition.state.isSatisfied) }
        try await monitor.run()
        condition.storage.removeObserver(observer)
    }

    /// The monitor has told everybody: the call of `deliver` has returned.
    private static func delivered() async throws {
        let stamps = Stamps()
        let observed = ObservedNetwork(KernelNetwork())
        let monitor = ReachabilityMonitor(observed)
        observed.observe { stamps.note(monitor.path.isSatisfied) }
        try await monitor.run()
    }

    /// A task that prefers the reader's thread goes on, for the network it has waited for is there.
    private static func executor() async throws {
        let stamps = Stamps()
        let network = KernelNetwork()
        let monitor = ReachabilityMonitor(network)
        let condition = monitor.condition(for: .internet)
        let listening = Task(executorPreference: network.executor) {
            while true {
                try await monitor.waitUntilSatisfied()
                stamps.note(true)
                for await state in condition.updates where !state.isSatisfied { break }
                stamps.note(false)
            }
        }
        try await monitor.run()
        try? await listening.value
    }

    /// The same with each state of the condition as it comes.
    private static func executorUpdates() async throws {
        let stamps = Stamps()
        let network = KernelNetwork()
        let monitor = ReachabilityMonitor(network)
        let condition = monitor.condition(for: .internet)
        let listening = Task(executorPreference: network.executor) {
            for await state in condition.updates { stamps.note(state.isSatisfied) }
        }
        try await monitor.run()
        await listening.value
    }

    /// A task that prefers the reader's thread has its transition.
    private static func executorStream() async throws {
        let stamps = Stamps()
        let network = KernelNetwork()
        let monitor = ReachabilityMonitor(network)
        let listening = Task(executorPreference: network.executor) {
            for await transition in monitor.transitions(to: .internet, raw: true) { stamps.note(transition.current.isSatisfied) }
        }
        try await monitor.run()
        await listening.value
    }

    /// A task on the default pool has its transition.
    private static func stream() async throws {
        let stamps = Stamps()
        let monitor = ReachabilityMonitor()
        let listening = Task {
            for await transition in monitor.transitions(to: .internet, raw: true) { stamps.note(transition.current.isSatisfied) }
        }
        try await monitor.run()
        await listening.value
    }

    /// Compares verdicts: the stream's elements, with any listener.
    private static func view() async throws { try await stream() }

    /// Writes how long it takes from the start of a monitor to its first verdict, in nanoseconds: the median of 21.
    private static func firstVerdict() async throws {
        var times: [Int64] = []
        for _ in 0..<21 {
            let monitor = ReachabilityMonitor()
            let baseline = monitor.transitions
            let start = bench_now()
            let running = Task { try await monitor.run() }
            for await _ in baseline { break }
            times.append(bench_now() - start)
            running.cancel()
            try await running.value
        }
        print(times.sorted()[times.count / 2])
    }
}
