import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// SwiftRetrier, which repeats while a condition holds.
@Suite(.timeLimit(.minutes(10))) struct SwiftRetrierTests {
    private static let slots = Backoff.exponential(initial: .milliseconds(500), maximum: .seconds(60))
    private static let instant = Act.fails(after: .zero)

    private static func limited(to seconds: Int) -> RetryPolicy {
        .peer(slots, attempts: nil).giveUpAfter(elapsed: .seconds(seconds))
    }

    private static let limits: [PeerCase] = [
        PeerCase(
            name: "three attempts", policy: .peer(slots, attempts: 3), acts: [instant],
            starts: [0, 0.5, 1.5], ends: 1.5, result: "other", reason: .attempts),
        // SwiftRetrier traps.
        PeerCase(
            name: "no attempts count as one", policy: .peer(slots, attempts: 0), acts: [instant],
            starts: [0], ends: 0, result: "other", reason: .attempts),
        // SwiftRetrier gives up at 15.5 s, because the next delay ends after the limit. Here a reconnect may end the delay.
        PeerCase(
            name: "half a minute", policy: limited(to: 30), acts: [instant],
            starts: [0, 0.5, 1.5, 3.5, 7.5, 15.5], ends: 30, result: "other", reason: .deadline),
        PeerCase(
            name: "half a minute, with a reconnect", policy: limited(to: 30), acts: [instant], changes: [(20, .flap)],
            starts: [0, 0.5, 1.5, 3.5, 7.5, 15.5, 20], ends: 30, result: "other", reason: .deadline),
        PeerCase(
            name: "a little more", policy: limited(to: 32), acts: [instant],
            starts: [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5], ends: 32, result: "other", reason: .deadline),
        // SwiftRetrier does not interrupt the attempt.
        PeerCase(
            name: "an attempt that outlasts the limit", policy: limited(to: 30), acts: [.ok(after: .seconds(100))],
            starts: [0], ends: 30, result: "\(RetryError.deadline)", reason: .deadline),
    ]

    @Test(arguments: limits) func limitsEndJobs(peer: PeerCase) async throws { try await peer.check() }

    struct Life: Sendable, CustomTestStringConvertible {
        var name: String
        var acts: [Act]
        var events: [RetryEvent.Kind]
        var testDescription: String { name }
    }

    private static let lives = [
        Life(name: "success", acts: [.ok()], events: [.attemptStarted, .succeeded]),
        Life(name: "giving up", acts: [.fails(Trouble.refused)], events: [.attemptStarted, .attemptFailed, .gaveUp]),
        Life(
            name: "failure, then success", acts: [.fails(), .ok()],
            events: [.attemptStarted, .attemptFailed, .backingOff, .attemptStarted, .succeeded]),
    ]

    @Test(arguments: lives) func eventsComeInTheOrderOfTheirAttempts(life: Life) async throws {
        try await Scenario(release: .immediate).run { scenario in
            let events = scenario.bus.events
            let policy = RetryPolicy.peer(Self.slots, attempts: nil).giveUpOnErrors { $0 as? Trouble == .refused }
            await scenario.submit("job", policy, acts: life.acts)
            await scenario.advance(to: .seconds(60))
            await scenario.bus.shutdown(drain: nil)
            var kinds: [RetryEvent.Kind] = []
            for await event in events { kinds.append(event.kind) }
            #expect(kinds == life.events)
        }
    }

    /// A lost condition cancels the attempt.
    ///
    /// SwiftRetrier then starts from the beginning. Here the job keeps its counters, and its delays restart
    /// if the policy says so.
    @Test(arguments: [(.automatic, 10.6), (.keepBackoff, 11.1)] as [(RetryPolicy.ReconnectRule, Double)])
    func lostConditionInterruptsTheAttempt(rule: RetryPolicy.ReconnectRule, last: Double) async throws {
        try await Scenario(release: .immediate).run { scenario in
            let login = ConditionSource("login", isSatisfied: true)
            let policy = RetryPolicy.peer(Self.slots, attempts: 3).giveUpAfter(elapsed: .seconds(12)).onReconnect(rule)
            await scenario.submit(
                "job", policy.interruptsAttempt(.whenUnsatisfied(grace: .zero)), when: [login.condition],
                .fails(), .ok(after: .seconds(100)), .fails(), .ok(after: .seconds(100)))
            try await scenario.at(.seconds(2)) { _ in login.set(false) }
            #expect(scenario.bus.pending.first?.state == .waiting && scenario.bus.pending.first?.charged == 1)
            try await scenario.at(.seconds(10)) { _ in login.set(true) }
            await scenario.advance(to: .seconds(11.5))
            #expect(scenario.starts("job") == [0, 0.6, 10, last] && scenario.bus.pending.first?.charged == 2)
            await scenario.advance(to: .seconds(60))
            #expect(scenario.ended("job") == 12, "the time counts from the submission")
        }
    }

    @Test func unsatisfiedConditionStartsNothing() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let login = ConditionSource("login", isSatisfied: false)
            await scenario.submit("waits", .peer(Self.slots, attempts: 3), when: [login.condition], .ok())
            await scenario.advance(to: .seconds(3600))
            #expect(scenario.starts("waits").isEmpty && scenario.bus.nextWakeUp == nil)
            // In SwiftRetrier a job whose condition ends unsatisfied finishes without an event.
            try await scenario.at(.seconds(3700)) { _ in login.finish() }
            #expect(scenario.starts("waits").isEmpty && scenario.result("waits") == "\(RetryError.conditionEnded)")
        }
    }

    /// SwiftRetrier's decorrelated delays follow the shortened previous delay.
    ///
    /// Here they follow the drawn delay, even if a reconnect cut it short.
    @Test(arguments: [1, 7, 20_260_131] as [UInt64], [false, true])
    func decorrelatedDelaysFollowDrawnDelays(seed: UInt64, isCut: Bool) async throws {
        let backoff = Self.slots.jitter(.decorrelated)
        var generator = SeededGenerator(seed: seed)
        var delays: [Duration] = []
        for n in 1...5 { delays.append(backoff.delay(afterFailure: n, previous: delays.last, using: &generator)) }
        try await Scenario(seed: seed, release: .immediate).run { [delays] scenario in
            await scenario.submit("job", .peer(backoff, attempts: 6), Self.instant)
            let second = delays[0] + delays[1]
            if isCut { try await scenario.reconnect(at: delays[0] + .milliseconds(1)) }
            await scenario.advance(to: .seconds(3600))
            var expected = delays.reduce(into: [Duration.zero]) { $0.append(($0.last ?? .zero) + $1) }
            let saved = isCut ? second - delays[0] - .milliseconds(1) : .zero
            for index in 2..<expected.count { expected[index] -= saved }
            let seconds = expected.map { ($0 / .milliseconds(1)).rounded() / 1000 }
            #expect(scenario.starts("job") == seconds, "seed \(seed)")
        }
    }

    /// SwiftRetrier traps at the 64th doubling, an hour into an outage.
    @Test func thousandFailuresDoNotTrap() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let policy = RetryPolicy.peer(Self.slots.jitter(.full), attempts: 1000)
            await scenario.submit("job", policy, Self.instant)
            await scenario.advance(to: .seconds(100_000))
            let starts = scenario.starts("job")
            #expect(starts.count == 1000)
            // Its jitter has no effect by then, because the cap applies after it.
            let late = zip(starts.dropFirst(500), starts.dropFirst(501)).map { $1 - $0 }
            #expect(late.allSatisfy { $0 <= 60 } && late.count { $0 < 59 } > 400, "the delays at the cap still differ")
        }
    }
}
