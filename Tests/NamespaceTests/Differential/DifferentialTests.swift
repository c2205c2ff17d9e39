import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// The same random changes to the kernel and to its model lead to the same verdicts and the same events.
///
/// `REACHABILITY_DIFFERENTIAL_OPERATIONS` sets the number of changes per seed, and `REACHABILITY_DIFFERENTIAL_SEEDS` the seeds:
/// numbers separated by commas, or `FIRST-LAST`.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(60)), .serialized)
struct DifferentialTests {
    @Test(arguments: Limits.seeds)
    func modelMatchesKernel(seed: UInt64) async throws {
        let twins = try await TwinNetworks()
        let pulse = Pulse(twins.kernel)
        var history: [String] = []
        do {
            try await pulse.running {
                try await twins.watching { monitors in
                    var generator = OperationGenerator(seed: seed)
                    for _ in 0..<Limits.operations {
                        let operation = generator.next(twins.model.kernel)
                        history.append(operation.description)
                        pulse.log.clear()
                        twins.log.clear()
                        try await twins.apply(operation)
                        try await pulse.settle {
                            if let first = try twins.difference(monitors) ?? twins.log.difference(from: pulse.log) { return first }
                            return try await VerdictComparison(twins).differenceFromSockets()
                        }
                    }
                }
            }
        } catch {
            let list = history.joined(separator: "\n")
            Issue.record("seed \(seed), change \(history.count): \(error)\n\(list)")
        }
    }

    enum Limits {
        static let operations = variable("REACHABILITY_DIFFERENTIAL_OPERATIONS") ?? 60
        static let seeds = NamespaceTests.seeds("REACHABILITY_DIFFERENTIAL_SEEDS")
    }
}

/// Returns the seeds that an environment variable sets: `1-100` or `3,5`.
func seeds(_ name: String) -> [UInt64] {
    guard let text: String = variable(name) else { return Array(1...6) }
    let ends = text.split(separator: "-").compactMap { UInt64($0) }
    if ends.count == 2, ends[0] <= ends[1] { return Array(ends[0]...ends[1]) }
    return text.split(separator: ",").compactMap { UInt64($0) }
}

/// Monitors on the kernel and on the model.
struct TwinMonitors: Sendable {
    let kernel: ReachabilityMonitor
    let model: ReachabilityMonitor
}

extension TwinNetworks {
    /// Runs a monitor on each while the body runs.
    func watching(_ body: (TwinMonitors) async throws -> Void) async throws {
        let monitors = TwinMonitors(
            kernel: ReachabilityMonitor(KernelNetwork(networkNamespace: near.path)),
            model: .init(AnnouncementTap(network: model, log: log)))
        let running = [monitors.kernel, monitors.model].map { monitor in Task { try await monitor.run() } }
        defer { for task in running { task.cancel() } }
        for monitor in [monitors.kernel, monitors.model] {
            // The baseline marks the start.
            for await _ in monitor.transitions(to: .internet, raw: true) { break }
        }
        try await body(monitors)
    }

    /// Returns the difference between the kernel, the model and their monitors; `nil` if they agree.
    func difference(_ monitors: TwinMonitors) throws -> String? {
        if let difference = try differenceOfInterfaces() { return difference }
        let comparison = try VerdictComparison(self)
        for scope in VerdictComparison.scopes {
            if let difference = try comparison.difference(scope) { return difference }
        }
        guard let expected = comparison.expectedPath else { return nil }
        for (name, monitor) in [("kernel", monitors.kernel), ("model", monitors.model)] {
            let path = VerdictComparison.text(monitor.path)
            if path != expected { return "the monitor on the \(name) says \(path), it should be \(expected)" }
        }
        return nil
    }
}
