#if MQTT
import TestSupport
import Testing

/// The figures that tests at real brokers print.
enum Figure {
    static func milliseconds(_ duration: Duration) -> String { "\(Int((duration / .milliseconds(1)).rounded(.up))) ms" }

    static func report(_ kind: BrokerKind, _ text: String) { print("figure: \(kind): \(text)") }

    static func elapsed(_ body: () async throws -> Void) async rethrows -> String {
        let start = ContinuousClock.now
        try await body()
        return milliseconds(ContinuousClock.now - start)
    }
}

/// Many members in one process.
@Suite(.timeLimit(.minutes(15)), .serialized, .blocking, .enabled(if: hasBrokers, "run them with Scripts/brokers"))
struct CrowdTests {
    /// FLEET_CROWD sets their number, and FLEET_PROBE another build of the probe.
    @Test(arguments: BrokerKind.allCases) func manyMembersShareAThread(kind: BrokerKind) async throws {
        let broker = try TestBroker(kind)
        let count = variable("FLEET_CROWD") ?? 50
        var figures = ""
        let time = try await Figure.elapsed {
            let probe = try ProbeMember(broker.url, "site", "node", ["count=\(count)"])
            #expect(probe.line("complete") != nil)
            let threads = try #require(probe.status("Threads"))
            // One of the members, up to eight that open connections, and those of Swift, Dispatch and the probe.
            #expect(threads <= 32)
            let memory = (probe.status("VmRSS") ?? 0) / 1024
            figures = "\(memory) MiB, \(threads) threads, \(probe.descriptors) descriptors"
            probe.kill()
        }
        Figure.report(kind, "\(count) members in one process had complete pictures after \(time): \(figures)")
    }
}
#endif
