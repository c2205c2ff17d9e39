package import Reachability

/// A running monitor for one command; ends when the command has seen enough, time is up, or the monitor ends.
package struct MonitorSession {
    /// The reason why a session ended.
    package enum End: Hashable {
        /// The command stopped it.
        case stopped(ExitStatus)
        /// The time limit passed.
        case timeUp
        /// The monitor ended, with an error if there was one.
        case monitorEnded(ReachabilityError?)
    }

    /// Consumes a transition of the scope at an index; returns an exit status to end the session.
    package typealias Consumer = @Sendable (Int, Transition) async -> ExitStatus?

    private let monitor: ReachabilityMonitor
    private let scopes: [Scope]
    private let isRaw: Bool
    private let timeLimit: Duration?
    private let clock: any Clock<Duration>

    /// - Parameters:
    ///   - isRaw: True for streams that hold no loss back.
    ///   - timeLimit: The time after which it ends; `nil` for none.
    ///   - clock: The clock of the time limit.
    package init(
        monitor: ReachabilityMonitor, scopes: [Scope], isRaw: Bool = false, timeLimit: Duration? = nil,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        (self.monitor, self.scopes, self.isRaw, self.timeLimit) = (monitor, scopes, isRaw, timeLimit)
        self.clock = clock
    }

    private enum Event {
        case consumed(ExitStatus?)
        case timeUp
        case ended(ReachabilityError?)
    }

    /// Runs the monitor and passes every transition to `consume`: baselines first, in the order of the scopes.
    package func run(_ consume: @escaping Consumer) async -> End {
        // Subscribe before the monitor runs: no transition is missed.
        let streams = scopes.map { monitor.transitions(to: $0, raw: isRaw) }
        return await withTaskGroup(of: Event.self) { group in
            group.addTask { .consumed(await Self.consume(streams, consume)) }
            group.addTask { .ended(await Self.run(monitor)) }
            if let timeLimit {
                group.addTask {
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
    package static func consume(_ streams: [AsyncStream<Transition>], _ consume: @escaping Consumer) async -> ExitStatus? {
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
