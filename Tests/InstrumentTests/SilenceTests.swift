import CoreMetrics
import InMemoryLogging
import Logging
import MetricsTestKit
import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct SilenceTests {
    @Test func noInstrumentsByDefault() async throws {
        let (metrics, log) = (TestMetrics(), InMemoryLogHandler())
        var logger = Logger(label: "current") { _ in log }
        logger.logLevel = .trace
        try await withLogger(logger) { _ in
            try await withMetricsFactory(metrics) {
                let network = SimulatedNetwork.online()
                let monitor = ReachabilityMonitor(network)
                let running = Task { try await monitor.run() }
                for await _ in monitor.transitions { break }
                try await RetryBus(monitor).retry(RetryPolicy(.immediate)) { attempt in
                    if attempt.number == 1 { throw Trouble.other }
                }
                try network.pull("eth0")
                running.cancel()
                try await running.value
            }
        }
        #expect(metrics.counters.isEmpty && metrics.meters.isEmpty && metrics.timers.isEmpty && metrics.recorders.isEmpty)
        #expect(log.entries.isEmpty)
    }

    /// Every metric with its label, from the start on; what the guide lists is the same.
    @Test func labelsAreKnownBeforehandAndListedInTheGuide() throws {
        let bench = try Bench()
        let metrics = bench.metrics
        let all =
            metrics.counters.map { ($0.label, $0.dimensions) } + metrics.meters.map { ($0.label, $0.dimensions) }
            + metrics.timers.map { ($0.label, $0.dimensions) }
        let names = Set(all.map { name, labels in name + labels.map { "{\($0.0)=\($0.1)}" }.joined() })
        let kinds = [
            "online", "offline", "familyGained", "familyLost", "interfaceChanged", "gatewayChanged", "sourceChanged",
            "reestablished", "resumed", "resynced", "reasonChanged", "validationChanged",
        ]
        let reasons = ["permanent", "attempts", "budget", "deadline", "waitLimit", "conditionEnded", "shutDown"]
        let expected =
            ["first", "timer", "reconnect", "condition", "retryNow"].map { "retry.attempts{trigger=\($0)}" }
            + ["network", "server", "overload", "request", "local", "unknown"].map { "retry.failures{fault=\($0)}" }
            + reasons.map { "retry.gave.up{reason=\($0)}" } + kinds.map { "reachability.transitions{kind=\($0)}" } + [
                "retry.jobs.pending", "retry.succeeded", "retry.cancelled", "retry.warnings", "retry.metrics.dropped",
                "retry.seconds.saved", "retry.reconnect.to.attempt",
                "reachability.satisfied", "reachability.outage.seconds", "reachability.path.losses",
                "reachability.losses", "reachability.resyncs",
                "reachability.missed.by.events", "reachability.requests.failed",
            ]
        #expect(names == Set(expected))
        #expect(bench.metrics.timers.allSatisfy { $0.displayUnit == .seconds })
        let guide = try Documents.text("Sources/ReachableRetry/ReachableRetry.docc/Instruments.md")
        for (name, _) in all { #expect(guide.contains("`\(name)`"), "\(name)") }
        for label in all.flatMap(\.1) { #expect(guide.contains("`\(label.1)`"), "\(label)") }
    }
}
