import CommandKit
import Reachability
import ReachableFleet
import ReachableJobs

/// The answer to `/metrics`: the text format 0.0.4 of Prometheus.
///
/// Pure. The sets of labels are fixed: scopes come from the command line, all other values are enumerations. No interface and no
/// job makes a series.
struct MetricsText {
    /// The numbers of the HTTP service.
    struct Service: Hashable {
        var readers = 0
        var cutReaders = 0
        var connections = 0
        var refusedConnections = 0
        /// False while the history cannot be written; `nil` without one.
        var writesHistory: Bool?
    }

    var version: String
    /// The time of the start, since 1970.
    var started: Duration
    /// The present time on the monitor's clock.
    var now: BootInstant
    /// The time since boot in which the machine was suspended.
    var suspended = Duration.zero
    var records: [ScopeRecord]
    var health: MonitorHealth
    /// The kernel's events.
    var events = EventCounts()
    /// The queue; `nil` if none is shown.
    var queue: QueueSnapshot?
    /// The ends of hooks; `nil` if none run.
    var hooks: HookCounts?
    /// The fleet; `nil` if this machine is not announced.
    var fleet: FleetSnapshot?
    var service: Service

    /// A metric of the text: its name, type and help, and its samples.
    private struct Metric {
        enum Kind: String {
            case counter, gauge
        }

        var name: String
        var kind: Kind
        var help: String
        var samples: [(labels: [(String, String)], value: String)]

        var text: String {
            var lines = ["# HELP \(name) \(help)", "# TYPE \(name) \(kind.rawValue)"]
            for (labels, value) in samples {
                let list = labels.map { "\($0)=\"\(ForeignText(name: $1).prometheusLabel)\"" }.joined(separator: ",")
                lines.append("\(name)\(list.isEmpty ? "" : "{\(list)}") \(value)")
            }
            return lines.joined(separator: "\n") + "\n"
        }
    }

    /// The text.
    var text: String {
        (scopes + monitor + jobs + hookMetrics + fleetMetrics + serviceMetrics).filter { !$0.samples.isEmpty }.map(\.text).joined()
    }

    // MARK: - Metrics

    private var scopes: [Metric] {
        func each(_ name: String, _ kind: Metric.Kind, _ help: String, _ value: (ScopeRecord) -> String) -> Metric {
            Metric(name: name, kind: kind, help: help, samples: records.map { ([("scope", "\($0.scope)")], value($0)) })
        }
        func states(
            _ name: String, _ label: String, _ help: String, _ values: [String], _ isSet: (ScopeRecord, String) -> Bool
        ) -> Metric {
            let samples = records.flatMap { record in
                values.map { value in ([("scope", "\(record.scope)"), (label, value)], isSet(record, value) ? "1" : "0") }
            }
            return Metric(name: name, kind: .gauge, help: help, samples: samples)
        }
        return [
            states(
                "reachability_status", "status", "The state of the path to the scope: 1 for the present one.",
                ["satisfied", "unsatisfied", "unknown"]
            ) { $0.last.current.status.rawValue == $1 },
            states(
                "reachability_offline_reason", "reason", "The missing layer of an unsatisfied path: 1 for the present one.",
                OfflineReason.all.map(\.rawValue)
            ) { $0.last.current.offlineReason?.rawValue == $1 },
            states("reachability_family_satisfied", "family", "1 if the IP family has a path to the scope.", ["ipv4", "ipv6"]) {
                $1 == "ipv4" ? $0.last.current.supportsIPv4 : $0.last.current.supportsIPv6
            },
            each(
                "reachability_last_change_timestamp_seconds", .gauge,
                "The time of the last change of the status, or of the service's start if there was none."
            ) { Self.seconds($0.beginning.wallTime) },
            each("reachability_transitions_total", .counter, "The published changes of the path.") { "\($0.last.sequence)" },
            each("reachability_outages_total", .counter, "The outages since the service started.") { "\($0.outages)" },
            each(
                "reachability_outage_seconds_total", .counter,
                "The time without a path since the service started, without suspensions."
            ) { Self.seconds($0.offlineTime(until: now, suspended: suspended)) },
            each(
                "reachability_path_losses_total", .counter,
                "The losses of the path or its carrier since the service started, those too short to be an outage included."
            ) { "\($0.losses)" },
            each("reachability_flap_penalty", .gauge, "The recent losses: each adds 1, which halves every 15 s.") {
                "\($0.last.flapPenalty)"
            },
        ]
    }

    private var monitor: [Metric] {
        let modes: [MonitorHealth.Mode] = [.starting, .live, .resyncing, .polling, .blind]
        func counter(_ name: String, _ value: Int, _ help: String) -> Metric {
            Metric(name: "reachability_monitor_\(name)_total", kind: .counter, help: help, samples: [([], "\(value)")])
        }
        return [
            Metric(
                name: "reachability_monitor_mode", kind: .gauge,
                help: "The way in which the monitor learns about changes: 1 for the present one.",
                samples: modes.map { ([("mode", $0.rawValue)], health.mode == $0 ? "1" : "0") }),
            Metric(
                name: "reachability_monitor_events_total", kind: .counter,
                help: "The events from the kernel, without those that its filter dropped.",
                samples: EventCounts.Kind.allCases.map { ([("kind", $0.rawValue)], "\(events[$0])") }),
            counter("event_losses", health.losses, "The losses of kernel events; a resync follows each."),
            counter("dropped_events", health.drops, "The datagrams that the kernel dropped because the buffer was full."),
            counter("resyncs", health.resyncs, "The times that everything was read again."),
            counter("socket_reopens", health.reopens, "The event sockets that replaced a deaf one."),
            counter("spoofed_messages", health.spoofed, "The messages whose sender is not the kernel."),
            counter("malformed_messages", health.malformed, "The malformed messages."),
            counter("failed_requests", health.failedRequests, "The failed requests to the kernel."),
            counter("missed_events", health.missedByEvents, "The changes that an audit found without an event."),
        ]
    }

    private var jobs: [Metric] {
        guard let queue else { return [] }
        var metrics = [
            Metric(
                name: "reachability_queue_readable", kind: .gauge, help: "1 if the store of the queue can be read.",
                samples: [([], queue.problem == nil ? "1" : "0")])
        ]
        if queue.problem == nil {
            metrics.append(
                Metric(
                    name: "reachability_queue_jobs", kind: .gauge, help: "The jobs of the queue by state.",
                    samples: DurableJob.State.allCases.map { ([("state", $0.rawValue)], "\(queue.counts[$0] ?? 0)") }))
        }
        return metrics
    }

    private var hookMetrics: [Metric] {
        guard let hooks else { return [] }
        return [
            Metric(
                name: "reachability_hooks_total", kind: .counter,
                help: "The hooks by their ends. For dropped: the changes that a newer one replaced while a hook ran.",
                samples: hooks.byOutcome.map { ([("outcome", $0)], "\($1)") })
        ]
    }

    private var fleetMetrics: [Metric] {
        guard let fleet else { return [] }
        return [
            Metric(
                name: "reachability_fleet_connected", kind: .gauge, help: "1 while the broker of the fleet is connected.",
                samples: [([], fleet.isConnected ? "1" : "0")]),
            Metric(
                name: "reachability_fleet_current", kind: .gauge, help: "1 while the states of the site's nodes are known.",
                samples: [([], fleet.picture.isCurrent ? "1" : "0")]),
            Metric(
                name: "reachability_fleet_nodes", kind: .gauge, help: "The nodes of the site by state.",
                samples: fleet.counts.map { ([("state", $0.state.rawValue)], "\($0.count)") }),
            Metric(
                name: "reachability_fleet_ignored_messages_total", kind: .counter,
                help: "The messages from the broker that were ignored.",
                samples: fleet.ignoredByReason.map { ([("reason", $0.reason)], "\($0.count)") }),
        ]
    }

    private var serviceMetrics: [Metric] {
        func one(_ name: String, _ kind: Metric.Kind, _ help: String, _ value: Int) -> Metric {
            Metric(name: "reachability_service_\(name)", kind: kind, help: help, samples: [([], "\(value)")])
        }
        var metrics = [
            Metric(
                name: "reachability_service_info", kind: .gauge, help: "1, with the version of the service.",
                samples: [([("version", version)], "1")]),
            Metric(
                name: "reachability_service_start_timestamp_seconds", kind: .gauge, help: "The time of the service's start.",
                samples: [([], Self.seconds(started))]),
            one("event_readers", .gauge, "The open streams of /events.", service.readers),
            one(
                "slow_readers_total", .counter, "The streams that were closed because their readers were too slow.",
                service.cutReaders),
            one("connections", .gauge, "The open connections.", service.connections),
            one(
                "refused_connections_total", .counter, "The connections that were closed because there were too many.",
                service.refusedConnections),
        ]
        if let isWritten = service.writesHistory {
            metrics.append(one("history_writable", .gauge, "1 if the history was written, 0 if that failed.", isWritten ? 1 : 0))
        }
        return metrics
    }

    /// Returns seconds with milliseconds.
    private static func seconds(_ duration: Duration) -> String {
        let (seconds, attoseconds) = max(duration, .zero).components
        let milliseconds = "\(attoseconds / 1_000_000_000_000_000)"
        return "\(seconds).\(String(repeating: "0", count: 3 - milliseconds.count))\(milliseconds)"
    }
}
