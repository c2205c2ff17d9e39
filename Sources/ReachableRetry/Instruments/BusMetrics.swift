internal import CoreMetrics
internal import Reachability

/// The metrics of a bus, with labels that are all known beforehand.
struct BusMetrics: Sendable {
    private let pending: Meter
    private let attempts: [RetryEvent.Trigger: Counter]
    private let failures: [String: Counter]
    private let succeeded: Counter
    private let cancelled: Counter
    private let gaveUp: [GiveUp.Reason: Counter]
    private let saved: Timer
    private let sinceReconnect: Timer

    init(_ factory: any MetricsFactory) {
        func counter(_ label: String, _ dimensions: (String, String)...) -> Counter {
            Counter(label: label, dimensions: dimensions, factory: factory)
        }
        func timer(_ label: String) -> Timer { Timer(label: label, preferredDisplayUnit: .seconds, factory: factory) }
        pending = Meter(label: "retry.jobs.pending", factory: factory)
        attempts = Self.counters(RetryEvent.Trigger.all) { counter("retry.attempts", ("trigger", $0)) }
        failures = Dictionary(
            uniqueKeysWithValues: AttemptFailure.Fault.labels.map { ($0, counter("retry.failures", ("fault", $0))) })
        succeeded = counter("retry.succeeded")
        cancelled = counter("retry.cancelled")
        gaveUp = Self.counters(GiveUp.Reason.all) { counter("retry.gave.up", ("reason", $0)) }
        saved = timer("retry.seconds.saved")
        sinceReconnect = timer("retry.reconnect.to.attempt")
    }

    private static func counters<Key: Hashable & RawRepresentable<String>>(
        _ keys: [Key], _ counter: (String) -> Counter
    ) -> [Key: Counter] {
        Dictionary(uniqueKeysWithValues: keys.map { ($0, counter($0.rawValue)) })
    }

    /// Counts by differences: buses that share a factory share the meter, too.
    func count(jobs: Int) {
        if jobs > 0 { pending.increment(by: Double(jobs)) }
        if jobs < 0 { pending.decrement(by: Double(-jobs)) }
    }

    func count(_ event: RetryEvent) {
        if let trigger = event.trigger { attempts[trigger]?.increment() }
        if let time = event.saved { saved.record(time) }
        if let time = event.sinceReconnect { sinceReconnect.record(time) }
        if let failure = event.failure { failures[failure.fault.label]?.increment() }
        if let report = event.report { gaveUp[report.reason]?.increment() }
        if event.kind == .succeeded { succeeded.increment() }
        if event.kind == .cancelled { cancelled.increment() }
    }
}
