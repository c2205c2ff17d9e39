import ArgumentParser
import CommandKit
import Reachability
import Synchronization

/// The subcommand `wait`.
struct WaitCommand: ParsableCommand {
    static let configuration = WaitOptions.configuration()

    @OptionGroup var options: WaitOptions

    func run() {
        Program.run(in: options.target.namespacePath) { [options] in
            let session = WaitSession(
                monitor: ReachabilityMonitor(configuration: options.monitoring.configuration), scopes: options.target.scopes,
                target: options.until == .satisfied ? .satisfied : .unsatisfied, timeout: options.timeout?.duration)
            let outcome = await session.run()
            if let error = outcome.error { return Program.report(error) }
            if options.verbose { session.summary(of: outcome).forEach(DescriptorOutput.printMessage) }
            return outcome.status
        }
    }
}

extension WaitSession {
    /// Returns the outcome in one line, and below it what to mend after a timeout, if that is known.
    func summary(of outcome: Outcome) -> [String] {
        let verdicts = zip(scopes, outcome.paths).map { statusLine($1, of: $0, .text, TextStyle()) }.joined(separator: "; ")
        return outcome.status == .no ? ["timed out: \(verdicts)"] + remedies(for: outcome.paths) : [verdicts]
    }

    /// Returns the lines about the interfaces to mend; empty for paths that have changed since.
    private func remedies(for paths: [NetworkPath]) -> [String] {
        guard target == .satisfied else { return [] }
        var lines: [String] = []
        for (scope, path) in zip(scopes, paths) where path.status == .unsatisfied {
            // No name is looked up again: the time is up.
            guard let explanation = try? monitor.explanations(of: [scope], within: .zero).first,
                explanation.path.offlineReason == path.offlineReason, Remedy.namesCulprit(of: explanation),
                let remedy = Remedy(explanation)
            else { continue }
            // Several scopes often lack the same.
            if !lines.contains(remedy.lines[0]) { lines += remedy.lines }
        }
        return lines
    }
}

/// The work of `wait`: returns once every scope has the wanted status.
struct WaitSession {
    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    /// The status to wait for.
    var target = NetworkPath.Status.satisfied
    var timeout: Duration?
    /// The clock of the timeout.
    ///
    /// It must include the time of suspend.
    var clock: any Clock<Duration> = ContinuousClock()

    /// The result.
    struct Outcome: Hashable {
        var status: ExitStatus
        /// The error that ended the wait.
        var error: ReachabilityError?
        /// The last known path of each scope.
        var paths: [NetworkPath]
    }

    /// Waits until every scope has the target status, the timeout passes, or the monitor ends.
    ///
    /// Short losses count: transitions are raw.
    func run() async -> Outcome {
        let latest = LatestPaths(count: scopes.count, target: target)
        do throws(ReachabilityError) {
            // A lookup needs no running monitor and no time. Host names are left to the monitor: getaddrinfo(3) may take many
            // seconds, and the time limit must hold.
            for (index, scope) in scopes.enumerated() where scope.host == nil { latest.set(try monitor.path(to: scope), at: index) }
        } catch {
            // A single failed request is not final: the monitor repeats it.
            guard error.code == .requestFailed else {
                return Outcome(status: ExitStatus(error), error: error, paths: latest.paths)
            }
        }
        if latest.allMatch { return Outcome(status: .yes, paths: latest.paths) }
        if let timeout, timeout <= .zero { return Outcome(status: .no, paths: latest.paths) }
        let session = MonitorSession(monitor: monitor, scopes: scopes, isRaw: true, timeLimit: timeout, clock: clock)
        let end = await session.run { [monitor, scopes, target] index, transition in
            latest.set(transition.current, at: index)
            if transition.current.status == .unknown, transition.cause.kind != .ended { return .unknown }
            // Streams of several scopes advance separately: their last transitions need not describe the same moment.
            // Streams deliver after the evaluation, so a mismatch means that another transition follows.
            let isTrueNow = monitor.lastPaths(to: scopes).allSatisfy { $0.status == target }
            return latest.allMatch && isTrueNow ? .yes : nil
        }
        switch end {
        case .stopped(let status): return Outcome(status: status, paths: latest.paths)
        case .timeUp: return Outcome(status: .no, paths: latest.paths)
        case .monitorEnded(let error):
            return Outcome(status: error.map(ExitStatus.init) ?? .unknown, error: error, paths: latest.paths)
        }
    }
}

/// The last known paths, written by one task per scope.
private final class LatestPaths: Sendable {
    private let values: Mutex<[NetworkPath]>
    private let target: NetworkPath.Status

    init(count: Int, target: NetworkPath.Status) {
        values = Mutex(Array(repeating: .unknown, count: count))
        self.target = target
    }

    var paths: [NetworkPath] { values.withLock(\.self) }

    var allMatch: Bool { values.withLock { $0.allSatisfy { $0.status == target } } }

    func set(_ path: NetworkPath, at index: Int) {
        values.withLock { $0[index] = path }
    }
}
