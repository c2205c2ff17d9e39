import CommandKit
import Reachability
import ReachableFleet
import ReachableJobs
import Testing

@testable import reachability_service

struct MetricsTextTests {
    private static func metrics(
        _ records: [ScopeRecord], queue: QueueSnapshot? = nil, hooks: HookCounts? = nil, fleet: FleetSnapshot? = nil
    ) -> MetricsText {
        MetricsText(
            version: "0.1.0", started: .seconds(1_767_225_600), now: BootInstant(sinceBoot: .milliseconds(5500)), records: records,
            health: MonitorHealth(), queue: queue, hooks: hooks, fleet: fleet,
            service: MetricsText.Service(readers: 2, writesHistory: true))
    }

    /// The names with their sets of labels, in the order of their values.
    private static func series(_ text: String) -> [String: Set<[String]>] {
        var series: [String: Set<[String]>] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let name = String(line.prefix { $0 != "{" && $0 != " " })
            let labels = line.split(separator: "=\"").dropLast().map { part in
                String(part.reversed().prefix { $0.isLetter || $0 == "_" }.reversed())
            }
            series[name, default: []].insert(labels)
        }
        return series
    }

    @Test func theTextNamesEachMetric() {
        var story = ScopeStory()
        var record = ScopeRecord(.internet, story.next(ScopeStory.online))
        record.update(story.next(ScopeStory.offline))
        let text = Self.metrics([record]).text
        for line in [
            "# TYPE reachability_status gauge", #"reachability_status{scope="internet",status="satisfied"} 0"#,
            #"reachability_status{scope="internet",status="unsatisfied"} 1"#,
            #"reachability_offline_reason{scope="internet",reason="noCarrier"} 1"#,
            #"reachability_offline_reason{scope="internet",reason="noRoute"} 0"#,
            #"reachability_family_satisfied{scope="internet",family="ipv4"} 0"#,
            #"reachability_last_change_timestamp_seconds{scope="internet"} 1767225602.000"#,
            #"reachability_transitions_total{scope="internet"} 1"#, #"reachability_outages_total{scope="internet"} 1"#,
            #"reachability_outage_seconds_total{scope="internet"} 3.500"#, #"reachability_monitor_mode{mode="starting"} 1"#,
            "reachability_service_event_readers 2", "reachability_service_history_writable 1",
            #"reachability_service_info{version="0.1.0"} 1"#,
        ] {
            #expect(text.split(separator: "\n").contains(Substring(line)), "\(line)")
        }
        #expect(text.hasSuffix("\n") && !text.contains("queue") && !text.contains("hooks") && !text.contains("fleet"))
    }

    @Test func eachMetricHasOneSetOfLabelsHelpAndType() throws {
        var (internet, nas) = (ScopeStory(), ScopeStory())
        let records = [
            ScopeRecord(.internet, internet.next(ScopeStory.online)), ScopeRecord(.host("nas.local"), nas.next(.unknown)),
        ]
        var queue = QueueSnapshot(store: "/q/queue.db")
        queue.counts = [.available: 3]
        let picture = FleetSamples.picture([try FleetSamples.node("kiosk-7", .lost), try FleetSamples.node("nas")])
        let fleet = FleetSnapshot(
            node: try FleetName("nas"), site: try FleetName("home"), broker: "broker", picture: picture, isConnected: true)
        let text = Self.metrics(records, queue: queue, hooks: HookCounts(), fleet: fleet).text
        let series = Self.series(text)
        #expect(series.count > 20 && series.values.allSatisfy { $0.count == 1 }, "\(series)")
        for name in series.keys {
            #expect(text.contains("# HELP \(name) ") && text.contains("# TYPE \(name) "))
            let isCounter = text.contains("# TYPE \(name) counter\n")
            #expect(isCounter == name.hasSuffix("_total"))
        }
        #expect(text.contains("reachability_queue_jobs{state=\"available\"} 3\n"))
        #expect(text.contains("reachability_fleet_nodes{state=\"lost\"} 1\n") && text.contains("reachability_fleet_connected 1\n"))
        // Neither interfaces nor jobs nor nodes make series.
        #expect(!text.contains("eth0") && !text.contains("kiosk-7"))
    }

    @Test func anUnreadableQueueHasNoNumbers() {
        var queue = QueueSnapshot(store: "/q/queue.db")
        queue.problem = "locked"
        let text = Self.metrics([], queue: queue).text
        #expect(text.contains("reachability_queue_readable 0\n") && !text.contains("reachability_queue_jobs"))
    }

    @Test func hooksAreCountedByTheirEnds() {
        var hooks = HookCounts()
        (hooks.succeeded, hooks.failed, hooks.timedOut, hooks.dropped, hooks.refused) = (1, 2, 3, 4, 5)
        let lines = Self.metrics([], hooks: hooks).text.split(separator: "\n").filter { $0.hasPrefix("reachability_hooks_total") }
        #expect(
            lines
                == [("succeeded", 1), ("failed", 2), ("timedOut", 3), ("dropped", 4), ("refused", 5)].map { outcome, count in
                    "reachability_hooks_total{outcome=\"\(outcome)\"} \(count)"
                })
    }

    @Test func labelsAreEscaped() {
        var story = ScopeStory()
        var scope = Scope.internet
        scope.interface = "a\"b\\\nc"
        let text = Self.metrics([ScopeRecord(scope, story.next(ScopeStory.online))]).text
        #expect(text.contains(#"reachability_transitions_total{scope="internet%a\"b\\\\x0ac"} 0"#))
    }
}
