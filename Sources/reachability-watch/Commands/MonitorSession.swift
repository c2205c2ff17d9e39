import Reachability

/// A monitor at work for one command: it runs until the command has seen enough, time is up, or it ends by itself.
struct MonitorSession {
    /// Why a session ended.
    enum End: Hashable {
        /// The command had seen enough.
        case stopped(ExitStatus)
        /// The time was up.
        case timeUp
        /// The monitor ended, by this error if there was one.
        case monitorEnded(ReachabilityError?)
    }

    /// Takes a transition of the scope with the given position; returns how to end, or `nil` to go on.
    typealias Consumer = @Sendable (Int, Transition) async -> ExitStatus?

    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    let isRaw: Bool
    let timeLimit: Duration?
    /// Measures the time limit.
    let clock: any Clock<Duration>

    private enum Event {
        case consumed(ExitStatus?)
        case timeUp
        case ended(ReachabilityError?)
    }

    /// Runs the monitor and hands every transition to `consume`: first the baselines in the order of the scopes, then what comes.
    func run(_ consume: @escaping Consumer) async -> End {
        // Subscribed before the monitor runs, so that nothing can be missed.
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
                // The last transitions are still to be consumed when the monitor ends.
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

    private static func consume(_ streams: [AsyncStream<Transition>], _ consume: @escaping Consumer) async -> ExitStatus? {
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
