import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// Scenario files of the rules of the retry bus: delays of 1, 2, 4 s without jitter, 0.1 s for each attempt.
@Suite(.timeLimit(.minutes(10)), .computing) struct SimulatedRunTests {
    private static let policy = "policy p --backoff exponential:1s --jitter none --attempts 4"
    private static let onceOnly = "policy p --backoff exponential:1s --jitter none --attempts 1"
    private static let cable = "at 500ms pull eth0\nat 800ms plug eth0"

    private func scenario(_ text: String) throws -> Scenario {
        var scenario = try ScenarioParser.parse(Array(text.utf8))
        scenario.release = .tuned(backoff: .seconds(1), jitter: false)
        return scenario
    }

    private func run(_ text: String, _ method: SimulatedRun.Method = .bus) async throws -> SimulationRecord {
        try await SimulatedRun(scenario: try scenario(text), method: method, seed: 1).perform()
    }

    private func starts(_ record: SimulationRecord) -> [Double] {
        record.attempts.map { ($0.start / .milliseconds(1)).rounded() / 1000 }
    }

    @Test(
        arguments: [
            ("S1", "server s answers 500 to 3s\n\(policy)\njob j to s policy p", [0, 1.1, 3.2]),
            (
                "S2", "network eth0 192.0.2.10/24 via 192.0.2.1 unplugged\nat 10s plug eth0\n\(onceOnly)\njob j policy p",
                [10]
            ),
            ("S3", "server s unreachable to 400ms\n\(cable)\n\(onceOnly)\njob j to s policy p", [0, 0.8]),
            (
                "S4", "server s answers 500 to 1s\nat 500ms pull eth0\nat 20s plug eth0\n\(policy)\njob j to s policy p",
                [0, 20]
            ),
            (
                "S5",
                "server s answers 503 retry-after 30s to 1s\nat 5s pull eth0\nat 6s plug eth0\n\(policy)\njob j to s policy p",
                [0, 30.1]
            ),
            (
                "S6", "timeout 1500ms\nat 500ms pull eth0\nat 2200ms plug eth0\n\(onceOnly)\njob j policy p takes 3s",
                [0, 2.2]
            ),
            ("S13", "server s answers 503 to 1s\n\(cable)\n\(policy)\njob j to s policy p", [0, 0.8, 2.9]),
            (
                "S15",
                "server s answers 500 to 1s\nat 5s suspend 8h\npolicy p --backoff constant:60s --jitter none\njob j to s policy p",
                [0, 28805]
            ),
            (
                "S18",
                """
                network eth0 192.0.2.10/24 via 192.0.2.1
                network wlan0 198.51.100.10/24 via 198.51.100.1
                server s answers 500 to 1s
                at 5s default wlan0
                policy p --backoff constant:60s --jitter none
                job j to s policy p
                """, [0, 5]
            ),
            (
                "S19",
                """
                server s answers 500 to 20s
                at 1s pull eth0
                at 1s plug eth0
                policy p --backoff constant:10s --jitter none
                job j to s policy p takes 500ms
                """, [0, 1, 11.5, 22]
            ),
            (
                "S20", "server s answers 429\npolicy p --backoff constant:3s --jitter none --attempts 3\njob j to s policy p",
                [0, 3.1, 6.2]
            ),
        ] as [(String, String, [Double])])
    func attemptsStartAsTheRulesSay(_ name: String, _ text: String, _ expected: [Double]) async throws {
        let record = try await run(text)
        #expect(starts(record) == expected, "\(name)")
        let job = try #require(record.jobs[0])
        #expect(job.outcome == (name == "S20" ? .gaveUp(.attempts) : .succeeded), "\(name)")
        if name == "S20" { #expect(job.end == .milliseconds(6300), "nothing follows the last failure") }
        if ["S2", "S3", "S6"].contains(name) { #expect(job.charged == 0, "\(name): the network's failures are not charged") }
    }

    @Test func anOfflineJobGivesUpAtItsDeadline() async throws {
        let record = try await run("at 0s pull eth0\npolicy p --deadline 5s\njob j policy p")
        #expect(record.attempts.isEmpty)
        #expect(record.jobs[0]?.outcome == .gaveUp(.deadline) && record.jobs[0]?.end == .seconds(5))
    }

    @Test func triggersAndResultsAreRecorded() async throws {
        let record = try await run(
            """
            server s answers 500 to 50ms
            server s answers 503 retry-after 30s from 1s to 2s
            server s refuses from 31s to 32s
            at 40s pull eth0
            at 50s plug eth0
            policy p --backoff constant:1s --jitter none
            job j to s policy p
            job late at 41s to s policy p
            """)
        #expect(record.attempts.map(\.trigger) == [.first, .backoff, .serverDelay, .backoff, .reconnect])
        #expect(
            record.attempts.map(\.result) == [
                .failed(.answered(500, retryAfter: nil)), .failed(.answered(503, retryAfter: .seconds(30))), .failed(.refused),
                .succeeded, .succeeded,
            ])
        #expect(record.attempts.map(\.isCharged) == [true, true, true, nil, nil])
        #expect(record.attempts.last?.start == .seconds(50) && record.attempts.last?.end == .milliseconds(50_100))
        #expect(record.paths.map(\.at) == [.zero, .seconds(40), .seconds(50)])
        #expect(record.reconnects == [.seconds(50)])
        #expect(record.outages.map(\.start) == [.seconds(40)] && record.outages.map(\.end) == [.seconds(50)])
        let waits = record.waits.filter { $0.job == 0 }
        #expect(waits.map(\.cause) == [.backoff, .serverDelay, .backoff])
        #expect(record.waits.filter { $0.job == 1 } == [.init(job: 1, cause: .network, start: .seconds(41), end: .seconds(50))])
    }

    /// Changes and submissions during a suspension happen at its end, also of one that follows on another.
    @Test func nothingHappensDuringASuspension() async throws {
        let record = try await run(
            "at 5s suspend 10s\nat 5s pull eth0\nat 8s suspend 1h\nat 9s plug eth0\njob a at 5s\njob b at 20s")
        #expect(record.paths.map(\.at) == [.zero, .seconds(15), .seconds(3615)])
        #expect(starts(record) == [3615, 3615])
    }

    @Test func plainBackoffSpendsItsAttemptsOffline() async throws {
        let text = "at 0s pull eth0\nat 25s plug eth0\npolicy p --backoff constant:1s --jitter none --attempts 2\njob j policy p"
        let record = try await run(text, .plain)
        // SYNs at 0, 1, 3 and 7 s are lost; the client gives up after 10 s.
        #expect(starts(record) == [0, 11])
        #expect(record.attempts.map(\.result) == [.failed(.connectTimedOut), .failed(.connectTimedOut)])
        #expect(record.attempts.map(\.isOffline) == [true, true] && record.attempts.map(\.isCharged) == [true, true])
        #expect(record.jobs[0]?.outcome == .gaveUp(.attempts))
        #expect(starts(try await run(text)) == [25], "the bus waits")
    }

    @Test func plainBackoffFailsAtOnceWithoutARoute() async throws {
        let text = "at 0s down eth0\nat 5s up eth0\npolicy p --backoff constant:2s --jitter none\njob j policy p"
        let record = try await run(text, .plain)
        #expect(record.attempts.map(\.result) == [.failed(.noRoute), .failed(.noRoute), .failed(.noRoute), .succeeded])
        #expect(starts(record) == [0, 2.001, 4.002, 6.003])
        #expect(starts(try await run(text)) == [5], "the default route comes back with the link")
    }

    @Test func aRetransmittedSYNConnects() async throws {
        let text = "at 0s pull eth0\nat 6s plug eth0\njob j"
        let record = try await run(text, .plain)
        #expect(record.attempts.map(\.end) == [.milliseconds(7100)], "the SYN after 7 s")
    }

    @Test func aConnectionSurvivesAShortLoss() async throws {
        let record = try await run("at 1s pull eth0\nat 4s plug eth0\njob j takes 2s")
        #expect(record.attempts.map(\.end) == [.seconds(5)] && record.attempts.map(\.result) == [.succeeded])
    }

    @Test func aConnectionDoesNotSurviveAnotherAddress() async throws {
        let record = try await run(
            """
            network eth0 192.0.2.10/24 via 192.0.2.1
            network wlan0 198.51.100.10/24 via 198.51.100.1
            at 1s default wlan0
            timeout 4s
            job j takes 2s
            """)
        #expect(record.attempts.map(\.result) == [.failed(.connectionLost), .succeeded])
        #expect(starts(record) == [0, 5] && record.attempts[0].isCharged == false)
    }

    @Test func attemptsAreCutByTheirTimeout() async throws {
        let record = try await run("policy p --attempt-timeout 1s --attempts 1\njob j policy p takes 2s")
        #expect(record.attempts.map(\.result) == [.timedOut] && record.attempts.map(\.end) == [.seconds(1)])
        let cut = try await run("policy p --deadline 1s\njob j policy p takes 2s")
        #expect(cut.attempts.map(\.result) == [.cut] && cut.jobs[0]?.outcome == .gaveUp(.deadline))
    }

    @Test func theEndLeavesJobsUnfinished() async throws {
        let record = try await run("until 1s\njob j takes 2s\njob later at 5s")
        #expect(record.end == .seconds(1) && record.jobs[0]?.outcome == .unfinished && record.jobs[1] == nil)
        #expect(record.attempts.map(\.result) == [.running] && record.attempts.map(\.end) == [.seconds(1)])
        let offline = try await run("at 2s pull eth0\njob j at 3s")
        #expect(offline.end == .seconds(3), "without 'until' it ends when nothing more happens")
        #expect(offline.jobs[0]?.outcome == .unfinished)
    }

    @Test func theGateLetsOneJobTryFirst() async throws {
        let text = """
            at 0s pull eth0
            at 10s plug eth0
            server s drops to 12s
            policy p --attempts 3
            jobs 30 j to s policy p
            timeout 1s
            """
        let (bus, plain) = (try await run(text), try await run(text, .plain))
        let figures = SimulationFigures(bus, reconnects: bus.reconnects)
        #expect(figures.succeeded == 30 && figures.charged == 0 && figures.startedOffline == 0)
        #expect((1...3).contains(figures.unanswered), "canaries: \(figures.unanswered)")
        #expect(figures.reconnects.first?.pending == 30 && figures.reconnects.first?.succeeded == 30)
        let others = SimulationFigures(plain, reconnects: bus.reconnects)
        #expect(others.unanswered > 30 && others.startedOffline > 0)
    }

    @Test func retryNowEndsABackoff() async throws {
        let record = try await run(
            "server s answers 500 to 1s\nat 3s retry-now\npolicy p --backoff constant:60s --jitter none\njob j to s policy p")
        #expect(starts(record) == [0, 3] && record.attempts.map(\.trigger) == [.first, .retryNow])
    }

    @Test func theSameSeedGivesTheSameRun() async throws {
        let scenario = try ScenarioParser.parse(
            Array("server s answers 500 to 20s\nat 5s pull eth0\nat 9s plug eth0\njobs 50 j every 100ms to s".utf8))
        let simulation = try await Simulation(scenario, name: "x", seed: 7)
        let again = try await Simulation(scenario, name: "x", seed: 7)
        #expect(SimulationJSON(simulation: simulation).lines.elementsEqual(SimulationJSON(simulation: again).lines))
        #expect(SimulationPicture(simulation).svg == SimulationPicture(again).svg)
        let other = try await Simulation(scenario, name: "x", seed: 8)
        let lines = SimulationJSON(simulation: simulation).lines.dropFirst()
        #expect(!lines.elementsEqual(SimulationJSON(simulation: other).lines.dropFirst()))
    }

    @Test func twoThousandJobsEnd() async throws {
        let record = try await run("at 0s pull eth0\nat 60s plug eth0\nserver s drops to 63s\njobs 2000 j to s")
        let figures = SimulationFigures(record, reconnects: record.reconnects)
        #expect(figures.succeeded == 2000 && figures.unanswered <= 15 && record.waits.isEmpty)
    }

    @Test func aSimulationStopsAtItsLimitOfAttempts() async throws {
        // Each attempt takes a millisecond.
        let text = "server s refuses\npolicy p --backoff immediate\njobs 50 j to s policy p\nuntil 1h"
        var run = SimulatedRun(scenario: try scenario(text), method: .plain, seed: 1)
        run.mostAttempts = 500
        let record = try await run.perform()
        #expect(record.isStopped && (500...550).contains(record.attempts.count) && record.end < .milliseconds(60))
    }
}
