import CommandKit
import Reachability

/// A running monitor for one command; ends when the command has seen enough, time is up, or the monitor ends.
struct MonitorSession {
    /// The reason why a session ended.
    enum End: Hashable {
        /// The command stopped it.
        case stopped(ExitStatus)
        /// The time limit passed.
        case timeUp
        /// The monitor ended, with an error if there was one.
        case monitorEnded(ReachabilityError?)
    }

    /// Consumes a transition of the scope at an index; returns an exit status to end the session.
    typealias Consumer = @Sendable (Int, Transition) async -> ExitStatus?

    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    let isRaw: Bool
    let timeLimit: Duration?
    /// The clock of the time limit.
    let clock: any Clock<Duration>

    private enum Event {
        case consumed(ExitStatus?)
        case timeUp
        case ended(ReachabilityError?)
    }

    /// Runs the monitor and passes every transition to `consume`: baselines first, in the order of the scopes.
    func run(_ consume: @escaping Consumer) async -> End {
        // Subscribe before the monitor runs: no transition is missed.
        let streams = scopes.map { monitor.transitions(to: $0, raw: isRaw) }
        return await withTaskGroup(of: Event.self) { group in
            group.addTask { .consumed(await Self.consume(streams, consume)) }
            group.addTask { .ended(await Self.run(monitor)) }
            if let timeLimit {
                group.addTask { [clock] in
                    try? await clock.sleep(for: timeLimit)
                    return .timeUp
                }
            }
            defer { group.cancelAll() }
            var (hasConsumed, hasEnded, error) = (false, false, ReachabilityError?.none)
            while let event = await group.next() {
                switch event {
                case .consumed(.some(let status)): return .stopped(status)
                case .timeUp: return .timeUp
                case .consumed(.none): hasConsumed = true
                case .ended(let cause): (hasEnded, error) = (true, cause)
                }
                // After the monitor's end the streams still hold its last transitions.
                if hasConsumed, hasEnded { break }
            }
            return .monitorEnded(error)
        }
    }

    private static func run(_ monitor: ReachabilityMonitor) async -> ReachabilityError? {
        do {
            try await monitor.run()
            return nil
        } catch let error as ReachabilityError {
            return error
        } catch {
            return ReachabilityError(.requestFailed, operation: "\(error)")
        }
    }

    /// Passes the transitions of several streams on: baselines first, in the order of the streams.
    static func consume(_ streams: [AsyncStream<Transition>], _ consume: @escaping Consumer) async -> ExitStatus? {
        for (index, stream) in streams.enumerated() {
            for await baseline in stream {
                if let status = await consume(index, baseline) { return status }
                break
            }
        }
        return await withTaskGroup(of: ExitStatus?.self) { group in
            for (index, stream) in streams.enumerated() {
                group.addTask {
                    for await transition in stream {
                        if let status = await consume(index, transition) { return status }
                    }
                    return nil
                }
            }
            defer { group.cancelAll() }
            for await status in group where status != nil { return status }
            return nil
        }
    }
}
