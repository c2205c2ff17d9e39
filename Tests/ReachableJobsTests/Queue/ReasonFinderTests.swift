import FoundationEssentials
import Reachability
import Testing

@testable import ReachableJobs
@testable import ReachableRetry

/// The reasons of waiting jobs as pure values: which ones there are, and their words.
@Suite struct ReasonFinderTests {
    private static let id = DurableJobID("0123456789abcdef0123456789abcdef") ?? DurableJobID()
    private static let other = DurableJobID("00000000000000000000000000000001") ?? DurableJobID()
    private static let kindScope = QueueCore.KindScope(kind: "send", scope: "internet")

    private func explanation(_ change: (inout JobExplanation) -> Void = { _ in }) -> JobExplanation {
        var new = NewJob(queue: "queue", kind: "send", payload: Data())
        (new.id, new.destination) = (Self.id, "api.example.org")
        let now = StoreInstant(nanoseconds: 100_000_000_000)
        let job = DurableJob(new, position: 1, now: now, created: Date(timeIntervalSince1970: 0))
        var explanation = JobExplanation(
            job: job, isPaused: false, workers: 1, holdUntil: nil, blockers: [], worker: nil, isStarted: false, now: now)
        change(&explanation)
        return explanation
    }

    private func outlook(_ change: (inout WorkerOutlook) -> Void = { _ in }) -> WorkerOutlook {
        let kind = QueueCore.Kind(versions: [1, 2], limit: nil, maxAttempts: nil)
        var outlook = WorkerOutlook(worker: WorkerID(rawValue: 1), kinds: ["send": kind])
        change(&outlook)
        return outlook
    }

    /// The kinds and words of the reasons.
    private func reasons(_ explanation: JobExplanation, seenBy outlook: WorkerOutlook? = nil, on node: String? = nil) -> [String] {
        ReasonFinder(explanation, seenBy: outlook, on: node).reasons.map { "\($0.kind.rawValue): \($0.words)" }
    }

    private func at(_ seconds: Int64) -> StoreInstant { StoreInstant(nanoseconds: seconds * 1_000_000_000) }

    private func delay(_ seconds: Int64, since: Int64 = 99, isNetwork: Bool) -> DurableJob.SoftDelay {
        .init(until: at(seconds), since: at(since), isNetwork: isNetwork)
    }

    private func onBus(_ state: PendingJob.State) -> PendingJob {
        PendingJob(
            id: "a", state: state, scope: .internet, priority: .normal, unmet: [], attempts: 0, charged: 0, networkFailures: 0)
    }

    /// The words of the bus and of the queue for the same reasons, from one place.
    @Test func theBusSaysTheSame() {
        var job = onBus(.backingOff)
        func words(_ change: (inout DurableJob) -> Void) -> [String] {
            ReasonFinder(explanation { change(&$0.job) }, seenBy: nil).reasons.map(\.words)
        }
        job.hardDelay = .milliseconds(1500)
        #expect(words { $0.notBefore = at(100).advanced(by: .milliseconds(1500)) } == [job.reason])
        (job.attempts, job.hardDelay) = (1, .seconds(30))
        #expect(words { $0.hardUntil = at(130) } == [job.reason])
        (job.softDelay, job.hardDelay, job.lastError) = (.seconds(5), nil, JobStoreError(.busy, "on fire", next: "wait"))
        #expect(words { ($0.softDelay, $0.lastError) = (delay(105, isNetwork: false), "on fire; next: wait") } == [job.reason])
    }

    // MARK: - What a store alone knows

    private static let nothing = "otherWorker: waits for a worker of another process"
    private static let behind = "blocked: waits for job 00000000000000000000000000000001 with its serial key"

    private func blocker(_ state: DurableJob.State, _ key: JobExplanation.Blocker.Key = .serial) -> JobExplanation.Blocker {
        JobExplanation.Blocker(id: Self.other, state: state, key: key)
    }

    /// Expects reasons that a store alone knows.
    private func storeSays(
        _ wanted: [String], sourceLocation: SourceLocation = #_sourceLocation, _ change: (inout JobExplanation) -> Void
    ) {
        #expect(reasons(explanation(change)) == wanted, sourceLocation: sourceLocation)
    }

    @Test func blockersAndPausesAreNamed() {
        storeSays([Self.nothing]) { _ in }
        storeSays(["paused: the queue is paused until it is resumed"]) { $0.isPaused = true }
        storeSays(["worker: waits for a worker: none runs"]) { $0.workers = 0 }
        storeSays([Self.behind]) { $0.blockers = [blocker(.available)] }
        storeSays(["blocked: waits for job 00000000000000000000000000000001 with its unique key, which runs"]) {
            $0.blockers = [blocker(.running, .unique)]
        }
        storeSays([Self.behind + ", which failed for good: retry or cancel that one"]) { $0.blockers = [blocker(.failed)] }
    }

    @Test func delaysAreNamed() {
        storeSays(["notDue: is due in 60 s"]) { $0.job.notBefore = at(160) }
        storeSays([Self.nothing]) { $0.job.notBefore = at(100) }
        storeSays(["serverDelay: the server ordered a delay of 30 s"]) { $0.job.hardUntil = at(130) }
        storeSays(["serverDelay: waits 30 s: api.example.org ordered a delay"]) { $0.holdUntil = at(130) }
        storeSays(["backingOff: backs off for 5 s after a network failure"]) {
            ($0.job.softDelay, $0.job.lastError) = (delay(105, isNetwork: true), "no route")
        }
        storeSays(["backingOff: backs off for 5 s after the error on fire"]) {
            ($0.job.softDelay, $0.job.lastError) = (delay(105, isNetwork: false), "on fire")
        }
        storeSays(["backingOff: backs off for 5 s"]) { $0.job.softDelay = delay(105, isNetwork: false) }
        storeSays([Self.nothing]) { $0.job.softDelay = delay(100, isNetwork: false) }
    }

    @Test func claimsAndEndsAreNoReasons() {
        storeSays(["claimed: waits at a worker of another process, which has claimed it"]) {
            ($0.job.state, $0.worker) = (.running, WorkerID(rawValue: 7))
        }
        storeSays([]) { ($0.job.state, $0.worker, $0.isStarted) = (.running, WorkerID(rawValue: 7), true) }
        storeSays([]) { $0.job.state = .succeeded }
        storeSays([]) { ($0.job.state, $0.isPaused) = (.failed, true) }
    }

    @Test func allReasonsComeInOrder() {
        let wanted = [
            "paused: the queue is paused until it is resumed", "worker: waits for a worker: none runs", Self.behind,
            "notDue: is due in 1 s", "backingOff: backs off for 3 s after a network failure",
            "serverDelay: the server ordered a delay of 2 s", "serverDelay: waits 4 s: api.example.org ordered a delay",
        ]
        storeSays(wanted) { explanation in
            (explanation.isPaused, explanation.workers, explanation.blockers) = (true, 0, [blocker(.available)])
            (explanation.job.notBefore, explanation.job.hardUntil) = (at(101), at(102))
            (explanation.job.softDelay, explanation.holdUntil) = (delay(103, isNetwork: true), at(104))
        }
    }

    // MARK: - What a worker knows

    private static let turn = "queued: waits for its turn"

    /// Expects reasons that a worker knows.
    private func workerSays(
        _ wanted: [String], of change: (inout JobExplanation) -> Void = { _ in },
        seenBy changeOutlook: (inout WorkerOutlook) -> Void = { _ in }, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(reasons(explanation(change), seenBy: outlook(changeOutlook)) == wanted, sourceLocation: sourceLocation)
    }

    @Test func unregisteredKindsAreNamed() {
        workerSays(
            ["unregistered: waits for a worker with the kind 'other': it is not registered here"], of: { $0.job.kind = "other" })
        workerSays(
            ["unregistered: waits for a worker with version 3 of the kind 'send': registered here is 1, 2"],
            of: { $0.job.version = 3 })
        workerSays(["unregistered: waits for a worker that can read its scope 'moon'"], of: { $0.job.scope = "moon" })
        workerSays(
            ["undecodable: waits for a worker that can decode version 1 of the kind 'send'"],
            of: { $0.job.softDelay = delay(160, since: 90, isNetwork: false) }, seenBy: { $0.undecodable = [Self.id] })
        workerSays([Self.turn], seenBy: { $0.undecodable = [Self.other] })
        workerSays([Self.nothing], seenBy: { ($0.isEnding, $0.kinds) = (true, [:]) })
    }

    @Test func conditionsAndLimitsOfAWorkerAreNamed() {
        let network = PendingDurableJob.Reason(.network, "waits for the network: none")
        let login = PendingDurableJob.Reason(.condition, "waits for condition 'login'")
        workerSays([Self.turn])
        workerSays(
            ["network: waits for the network: none", "condition: waits for condition 'login'"],
            seenBy: { $0.unmet[Self.kindScope] = [network, login] })
        workerSays([Self.turn], of: { $0.job.scope = "192.0.2.1" }, seenBy: { $0.unmet[Self.kindScope] = [network] })
        func limit(_ limit: Int, held: [String: Int]) -> (inout WorkerOutlook) -> Void {
            { outlook in
                outlook.kinds["send"]?.limit = limit
                outlook.held = held
            }
        }
        workerSays([Self.turn + ": 2 jobs of the kind 'send', as many as may at a time"], seenBy: limit(2, held: ["send": 2]))
        workerSays([Self.turn + ": 1 job of the kind 'send', as many as may at a time"], seenBy: limit(1, held: ["send": 1]))
        workerSays([Self.turn], seenBy: limit(2, held: ["send": 1, "other": 9]))
        workerSays([Self.turn + ": job 00000000000000000000000000000001 has to run alone"], seenBy: { $0.alone = Self.other })
        workerSays([Self.turn + ": the worker has claimed as many jobs as it may"], seenBy: { $0.isFull = true })
        workerSays(["condition: waits for condition 'login'"], seenBy: { ($0.isFull, $0.unmet[Self.kindScope]) = (true, [login]) })
    }

    @Test func edgesEndNetworkFailures() {
        let backoff = "backingOff: backs off for 60 s"
        workerSays([Self.turn], of: { fail(&$0.job, at: 90) }, seenBy: { $0.edges[Self.kindScope] = at(95).nanoseconds })
        workerSays([Self.turn], of: { fail(&$0.job, at: 90) }, seenBy: { $0.began = at(95).nanoseconds })
        workerSays(
            [backoff + " after a network failure"], of: { fail(&$0.job, at: 95) },
            seenBy: { $0.edges[Self.kindScope] = at(95).nanoseconds })
        workerSays(
            [backoff], of: { $0.job.softDelay = delay(160, since: 90, isNetwork: false) },
            seenBy: { $0.edges[Self.kindScope] = at(95).nanoseconds })
    }

    @Test func claimsHereAndElsewhereDiffer() {
        func claimed(by worker: Int64) -> (inout JobExplanation) -> Void {
            { ($0.job.state, $0.worker) = (.running, WorkerID(rawValue: worker)) }
        }
        workerSays(["claimed: waits at a worker of another process, which has claimed it"], of: claimed(by: 2))
        workerSays([Self.turn], of: claimed(by: 1))
        workerSays(
            ["queued: waits until it can run alone: 3 of its attempts ended with their process"],
            of: { ($0.job.state, $0.worker, $0.job.counters.crashes) = (.running, WorkerID(rawValue: 1), 3) },
            seenBy: { $0.lonely = [Self.id] })
        workerSays(["bus: \(onBus(.backingOff).reason)"], of: claimed(by: 1), seenBy: { $0.onBus = [Self.id: onBus(.backingOff)] })
        workerSays([], of: claimed(by: 1), seenBy: { $0.onBus = [Self.id: onBus(.running)] })
    }

    /// Fails on node `a`, for 60 s from now on.
    private func fail(_ job: inout DurableJob, at time: Int64, networkFailures: Int = 1) {
        job.softDelay = .init(until: at(160), since: at(time), isNetwork: true)
        job.avoidance = .init(node: "a", bootID: "boot", since: at(time).nanoseconds, until: at(160).nanoseconds)
        job.counters.networkFailures = networkFailures
    }

    /// The failure of one node's network delays the job there, and elsewhere for a moment.
    @Test func otherNodesTakeTheJobOver() {
        func words(_ time: String) -> String { "backingOff: backs off for \(time) after a network failure" }
        let cases: [(here: String?, failures: Int, wanted: String?)] = [
            ("a", 1, words("60 s")), (nil, 1, words("60 s")), ("b", 1, nil), ("b", 9, words("4 s")),
        ]
        for (here, failures, wanted) in cases {
            let explanation = explanation { fail(&$0.job, at: 99, networkFailures: failures) }
            #expect(reasons(explanation, seenBy: outlook(), on: here) == [wanted ?? "queued: waits for its turn"])
            #expect(reasons(explanation, on: here) == [wanted ?? "otherWorker: waits for a worker of another process"])
        }
    }

    @Test func numbersComeWithTheWords() {
        let blocker = JobExplanation.Blocker(id: Self.other, state: .available, key: .serial)
        let job = PendingDurableJob(
            explanation { explanation in
                (explanation.blockers, explanation.job.notBefore, explanation.job.hardUntil) = ([blocker], at(110), at(130))
            }, seenBy: outlook())
        #expect(job.reasons.map(\.kind) == [.blocked, .notDue, .serverDelay])
        #expect(job.reasons.map(\.delay) == [nil, .seconds(10), .seconds(30)])
        #expect(job.reasons.map(\.job) == [Self.other, nil, nil])
        #expect(job.startsIn == .seconds(30))
        #expect(job.waitingFor.count == 3)
        #expect(
            job.description == "0123456789abcdef0123456789abcdef: waits for job 00000000000000000000000000000001 "
                + "with its serial key, and is due in 10 s, and the server ordered a delay of 30 s")
    }

    @Test func endedJobsHaveAStateInstead() {
        func reason(_ change: (inout DurableJob) -> Void) -> String {
            let ended = explanation { explanation in
                change(&explanation.job)
                explanation.isStarted = true
            }
            return PendingDurableJob(ended, seenBy: nil).reason
        }
        #expect(reason { ($0.state, $0.counters.started) = (.running, 3) } == "attempt 3 is running")
        #expect(reason { $0.state = .succeeded } == "succeeded")
        #expect(reason { ($0.state, $0.failureReason) = (.failed, "attempts") } == "failed: attempts")
        #expect(reason { $0.state = .cancelled } == "cancelled")
    }
}
