import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// A case from another library's tests or documentation, written as a job of the bus.
///
/// All times are seconds.
struct PeerCase: Sendable, CustomTestStringConvertible {
    /// The changes of the only cable.
    enum Change: Sendable {
        case down
        case up
        /// Pulled and plugged in again.
        case flap
        /// All events again, without a change.
        case echo
    }

    var name: String
    var policy: RetryPolicy
    /// The results of the attempts; the last one repeats.
    var acts: [Act]
    var isOnline = true
    var changes: [(at: Double, Change)] = []
    var starts: [Double]
    /// `nil` if the job does not end.
    var ends: Double?
    var result = "ok"
    /// The reason for giving up; `nil` if the job succeeds.
    var reason: GiveUp.Reason?

    var testDescription: String { name }

    func check() async throws {
        try await Scenario(online: isOnline, release: .immediate).run { scenario in
            let reports = Recorder<GiveUp>()
            await scenario.submit("job", policy.onGiveUp { report in reports.record(report) }, acts: acts)
            for (time, change) in changes { try await scenario.at(.seconds(time)) { try change.happen(to: $0) } }
            await scenario.advance(to: .seconds(2000))
            #expect(scenario.starts("job") == starts)
            #expect(scenario.ended("job") == ends)
            if ends != nil { #expect(scenario.result("job") == result) }
            let given = reports.value
            #expect(given.map(\.reason) == (reason.map { [$0] } ?? []))
            #expect(given.allSatisfy { $0.attempts == starts.count }, "the report counts what was started")
        }
    }
}

extension PeerCase.Change {
    fileprivate func happen(to network: SimulatedNetwork) throws {
        switch self {
        case .down: try network.pull("eth0")
        case .up: try network.plug("eth0")
        case .flap:
            try network.pull("eth0")
            try network.plug("eth0")
        case .echo:
            network.announce(.overrun)
            try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0")
        }
    }
}

extension RetryPolicy {
    /// A policy that knows the errors of the scenarios.
    static func peer(_ backoff: Backoff, attempts: Int?) -> RetryPolicy {
        Trouble.classified(RetryPolicy(backoff).giveUpAfter(maxAttempts: attempts))
    }
}
