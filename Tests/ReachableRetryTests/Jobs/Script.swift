import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization

/// An operation that fails a given number of times, takes no time, and records the times of its calls.
final class Script: Sendable {
    private struct State {
        var failures: [any Error]
        var calls: [Double] = []
        var events: [String] = []
    }

    private let clock: ManualClock
    private let state: Mutex<State>

    init(_ scenario: Scenario, failures: [any Error] = []) {
        clock = scenario.clock
        state = Mutex(State(failures: failures))
    }

    /// The times of the calls, in seconds.
    var calls: [Double] { state.withLock(\.calls) }

    /// The events that handlers received.
    var events: [String] { state.withLock(\.events) }

    /// Fails, or returns the number of the call.
    func call() throws -> Int {
        try state.withLock { state in
            state.calls.append((clock.now.offset / .milliseconds(1)).rounded() / 1000)
            if !state.failures.isEmpty { throw state.failures.removeFirst() }
            return state.calls.count
        }
    }

    func note(_ event: JobEvent<Int>, by handler: String = "") {
        state.withLock { $0.events.append(handler + event.text) }
    }

    func job(_ bus: RetryBus, _ policy: RetryPolicy = .scenario, when conditions: [Condition] = [], id: JobID? = nil) -> Job<Int> {
        bus.job(policy, options: JobOptions(when: conditions, id: id)) { [self] _ in try call() }
    }
}

extension JobEvent {
    /// A short description.
    var text: String {
        switch self {
        case .waiting(let unmet): "waiting for \(unmet.map(\.description).joined(separator: ", "))"
        case .attemptStarted(let number): "start \(number)"
        case .attemptSucceeded(let value): "attempt \(value)"
        case .attemptFailed(let failure): "failed \(failure.error) \(failure.isCharged)"
        case .backingOff(let delay): "backing off \(delay / .seconds(1))"
        case .succeeded(let value): "succeeded \(value)"
        case .gaveUp(let error, let report): "gave up \(error) \(report?.attempts ?? -1)"
        case .cancelled: "cancelled"
        }
    }
}

extension JobEvents where Value == Int {
    /// The descriptions of all.
    var texts: [String] {
        get async {
            var texts: [String] = []
            for await event in self { texts.append(event.text) }
            return texts
        }
    }
}
