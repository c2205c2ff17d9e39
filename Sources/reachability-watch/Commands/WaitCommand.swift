import ArgumentParser
import Reachability
import Synchronization

/// The subcommand `wait`.
struct WaitCommand: ParsableCommand {
    /// What to wait for.
    enum Until: String, CaseIterable, ExpressibleByArgument {
        case satisfied
        case unsatisfied
    }

    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Ends with 0 as soon as all is reachable, with 1 if the time runs out first, with 2 if nothing can be seen.",
        discussion: """
            It writes nothing to standard output.

            EXAMPLES
              reachability-watch wait && rsync -a photos/ nas:photos/
              reachability-watch wait --to 192.0.2.7 --until unsatisfied --timeout 1h
            """)

    @OptionGroup var target: ScopeOptions

    @Option(help: "What to wait for: satisfied, or unsatisfied.")
    var until = Until.satisfied

    @Option(
        help: ArgumentHelp("Give up after this time, such as 250ms, 2s, 5m or 1h; suspension counts.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    @Flag(name: .shortAndLong, help: "Say on standard error how it ended.")
    var verbose = false

    func run() {
        Program.run(in: target.namespacePath) { [target, until, timeout, verbose] in
            let session = WaitSession(
                monitor: ReachabilityMonitor(), scopes: target.scopes, target: until == .satisfied ? .satisfied : .unsatisfied,
                timeout: timeout?.duration)
            let outcome = await session.run()
            if let error = outcome.error { return Program.report(error) }
            if verbose { DescriptorOutput.complain(session.report(of: outcome)) }
            return outcome.status
        }
    }
}

extension WaitSession {
    /// How it ended, in one line.
    func report(of outcome: Outcome) -> String {
        let verdicts = zip(scopes, outcome.paths).map { statusLine($1, of: $0, .text, TextStyle()) }.joined(separator: "; ")
        return outcome.status == .no ? "timed out: \(verdicts)" : verdicts
    }
}

/// What `wait` does: it returns as soon as all scopes are as wanted.
struct WaitSession {
    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    /// The status to wait for.
    var target = NetworkPath.Status.satisfied
    var timeout: Duration?
    /// Measures the timeout.
    ///
    /// It must count the time that the machine is suspended.
    var clock: any Clock<Duration> = ContinuousClock()

    /// How it ended.
    struct Outcome: Hashable {
        var status: ExitStatus
        /// The error that ended it.
        var error: ReachabilityError?
        /// What was last known of each scope.
        var paths: [NetworkPath]
    }

    /// Waits.
    ///
    /// Losses are not held back.
    func run() async -> Outcome {
        let latest = LatestPaths(count: scopes.count, target: target)
        do throws(ReachabilityError) {
            // Asked first: an answer that is there already needs no monitor, nor any time. A host's name may take the resolver many
            // seconds (getaddrinfo(3)): the monitor waits for it elsewhere, within the time limit.
            for (index, scope) in scopes.enumerated() where scope.host == nil { latest.set(try monitor.path(to: scope), at: index) }
        } catch {
            // One request that failed is no reason to give up: the monitor asks again.
            guard error.code == .requestFailed else {
                return Outcome(status: ExitStatus(error), error: error, paths: latest.paths)
            }
        }
        if latest.areAsWanted { return Outcome(status: .yes, paths: latest.paths) }
        if let timeout, timeout <= .zero { return Outcome(status: .no, paths: latest.paths) }
        let conditions = scopes.map(monitor.condition(for:))
        let session = MonitorSession(monitor: monitor, scopes: scopes, isRaw: true, timeLimit: timeout, clock: clock)
        let end = await session.run { [target] index, transition in
            latest.set(transition.current, at: index)
            if transition.current.status == .unknown, transition.cause.kind != .ended { return .unknown }
            // Streams of different scopes are read at their own pace: what they said last need not have been true at the same time.
            // Conditions change before streams tell, so where they disagree another transition is on its way.
            let isTrueNow = conditions.allSatisfy { $0.state.isSatisfied == (target == .satisfied) && !$0.state.isFinished }
            return latest.areAsWanted && isTrueNow ? .yes : nil
        }
        switch end {
        case .stopped(let status): return Outcome(status: status, paths: latest.paths)
        case .timeUp: return Outcome(status: .no, paths: latest.paths)
        case .monitorEnded(let error):
            return Outcome(status: error.map(ExitStatus.init) ?? .unknown, error: error, paths: latest.paths)
        }
    }
}

/// What is known of each scope, written by one task per scope.
private final class LatestPaths: Sendable {
    private let values: Mutex<[NetworkPath]>
    private let target: NetworkPath.Status

    init(count: Int, target: NetworkPath.Status) {
        values = Mutex(Array(repeating: .unknown, count: count))
        self.target = target
    }

    var paths: [NetworkPath] { values.withLock(\.self) }

    var areAsWanted: Bool { values.withLock { $0.allSatisfy { $0.status == target } } }

    func set(_ path: NetworkPath, at index: Int) {
        values.withLock { $0[index] = path }
    }
}
