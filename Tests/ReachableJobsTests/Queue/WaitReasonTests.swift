import FoundationEssentials
import Reachability
import Testing

@testable import ReachableJobs
@testable import ReachableRetry

/// The reasons of waiting jobs as pure values: which ones there are, and their words.
@Suite struct WaitReasonTests {
    private static let id = DurableJobID("0123456789abcdef0123456789abcdef") ?? DurableJobID()
    private static let other = DurableJobID("00000000000000000000000000000001") ?? DurableJobID()

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

    private static func limit(_ limit: Int, held: [String: Int]) -> (inout WorkerOutlook) -> Void {
        { outlook in
            outlook.kinds["send"]?.limit = limit
            outlook.held = held
        }
    }

    private func at(_ seconds: Int64) -> StoreInstant { StoreInstant(nanoseconds: seconds * 1_000_000_000) }

    private static let kindScope = QueueCore.KindScope(kind: "send", scope: "internet")

    // MARK: - Words

    private static let words: [(WaitReason, String)] = [
        (.paused, "the queue is paused until it is resumed"),
        (.noWorker, "waits for a worker: none runs"),
        (.otherWorker, "waits for a worker of another process"),
        (.claimed, "waits at a worker of another process, which has claimed it"),
        (
            .blocked(.init(id: other, state: .available, key: .serial)),
            "waits for job 00000000000000000000000000000001 with its serial key"
        ),
        (
            .blocked(.init(id: other, state: .running, key: .unique)),
            "waits for job 00000000000000000000000000000001 with its unique key, which runs"
        ),
        (
            .blocked(.init(id: other, state: .failed, key: .serial)),
            "waits for job 00000000000000000000000000000001 with its serial key, which failed for good: retry or cancel that one"
        ),
        (.unknownKind("send"), "waits for a worker with the kind 'send': it is not registered here"),
        (
            .unknownVersion(3, kind: "send", known: [1, 2]),
            "waits for a worker with version 3 of the kind 'send': registered here is 1, 2"
        ),
        (.unknownScope("moon"), "waits for a worker that can read its scope 'moon'"),
        (.undecodable(version: 2, kind: "send"), "waits for a worker that can decode version 2 of the kind 'send'"),
        (.notDue(.milliseconds(1500)), "is due in 1.5 s"),
        (.backoff(.seconds(5), isNetwork: true, error: "no route"), "backs off for 5 s after a network failure"),
        (.backoff(.seconds(5), isNetwork: false, error: "on fire"), "backs off for 5 s after the error on fire"),
        (.backoff(.seconds(5), isNetwork: false, error: nil), "backs off for 5 s"),
        (.serverDelay(.seconds(30)), "the server ordered a delay of 30 s"),
        (.hold(.seconds(30), target: "api.example.org"), "waits 30 s: api.example.org ordered a delay"),
        (
            .network("the network: eth0 has no carrier (noCarrier)"),
            "waits for the network: eth0 has no carrier (noCarrier)"
        ),
        (.condition("logged in"), "waits for condition 'logged in'"),
        (.kindLimit(1, kind: "send"), "waits for its turn: 1 job of the kind 'send', as many as may at a time"),
        (.kindLimit(2, kind: "send"), "waits for its turn: 2 jobs of the kind 'send', as many as may at a time"),
        (.lonely(crashes: 3), "waits until it can run alone: 3 of its attempts ended with their process"),
        (.behind(other), "waits for its turn: job 00000000000000000000000000000001 has to run alone"),
        (.full, "waits for its turn: the worker has claimed as many jobs as it may"),
        (.bus("the bus's words"), "the bus's words"),
        (.turn, "waits for its turn"),
    ]

    @Test func eachReasonHasItsWords() {
        for (reason, words) in Self.words {
            #expect(reason.words == words)
            #expect(reason.reason.words == words)
        }
    }

    /// The words of the bus and of the queue for the same reasons, from one place.
    @Test func theBusSaysTheSame() {
        var job = PendingJob(
            id: "a", state: .backingOff, scope: .internet, priority: .normal, unmet: [], attempts: 0, charged: 0, networkFailures: 0
        )
        job.hardDelay = .milliseconds(1500)
        #expect(job.reason == WaitReason.notDue(.milliseconds(1500)).words)
        (job.attempts, job.hardDelay) = (1, .seconds(30))
        #expect(job.reason == WaitReason.serverDelay(.seconds(30)).words)
        (job.softDelay, job.hardDelay, job.lastError) = (.seconds(5), nil, JobStoreError(.busy, "on fire", next: "wait"))
        #expect(job.reason == WaitReason.backoff(.seconds(5), isNetwork: false, error: "on fire; next: wait").words)
    }

    // MARK: - What a store alone knows

    @Test func storeAloneKnowsItsReasons() {
        let blocker = JobExplanation.Blocker(id: Self.other, state: .failed, key: .serial)
        let cases: [(String, (inout JobExplanation) -> Void, [WaitReason])] = [
            ("nothing", { _ in }, [.otherWorker]),
            ("paused", { $0.isPaused = true }, [.paused]),
            ("no worker", { $0.workers = 0 }, [.noWorker]),
            ("blocked", { $0.blockers = [blocker] }, [.blocked(blocker)]),
            ("not due", { $0.job.notBefore = self.at(160) }, [.notDue(.seconds(60))]),
            ("due", { $0.job.notBefore = self.at(100) }, [.otherWorker]),
            ("server's delay", { $0.job.hardUntil = self.at(130) }, [.serverDelay(.seconds(30))]),
            ("hold", { $0.holdUntil = self.at(130) }, [.hold(.seconds(30), target: "api.example.org")]),
            (
                "network failure", { $0.job.softDelay = .init(until: self.at(105), since: self.at(99), isNetwork: true) },
                [.backoff(.seconds(5), isNetwork: true, error: nil)]
            ),
            (
                "failure",
                { ($0.job.softDelay, $0.job.lastError) = (.init(until: self.at(105), since: self.at(99), isNetwork: false), "x") },
                [.backoff(.seconds(5), isNetwork: false, error: "x")]
            ),
            (
                "past failure", { $0.job.softDelay = .init(until: self.at(100), since: self.at(99), isNetwork: false) },
                [.otherWorker]
            ),
            ("claimed", { ($0.job.state, $0.worker) = (.running, WorkerID(rawValue: 7)) }, [.claimed]),
            ("running", { ($0.job.state, $0.worker, $0.isStarted) = (.running, WorkerID(rawValue: 7), true) }, []),
            ("succeeded", { $0.job.state = .succeeded }, []),
            ("failed while paused", { ($0.job.state, $0.isPaused) = (.failed, true) }, []),
            (
                "all",
                { explanation in
                    (explanation.isPaused, explanation.workers, explanation.blockers) = (true, 0, [blocker])
                    (explanation.job.notBefore, explanation.job.hardUntil) = (self.at(101), self.at(102))
                    (explanation.job.softDelay, explanation.holdUntil) = (
                        .init(until: self.at(103), since: self.at(99), isNetwork: true), self.at(104)
                    )
                },
                [
                    .paused, .noWorker, .blocked(blocker), .notDue(.seconds(1)),
                    .backoff(.seconds(3), isNetwork: true, error: nil), .serverDelay(.seconds(2)),
                    .hold(.seconds(4), target: "api.example.org"),
                ]
            ),
        ]
        for (name, change, wanted) in cases {
            #expect(WaitReason.reasons(for: explanation(change), seenBy: nil) == wanted, "\(name)")
        }
    }

    // MARK: - What a worker knows

    @Test func workerKnowsMore() {
        let cases: [(String, (inout JobExplanation) -> Void, (inout WorkerOutlook) -> Void, [WaitReason])] = [
            ("nothing", { _ in }, { _ in }, [.turn]),
            ("unknown kind", { $0.job.kind = "other" }, { _ in }, [.unknownKind("other")]),
            ("version", { $0.job.version = 3 }, { _ in }, [.unknownVersion(3, kind: "send", known: [1, 2])]),
            ("scope", { $0.job.scope = "moon" }, { _ in }, [.unknownScope("moon")]),
            (
                "offline", { _ in }, { $0.unmet[Self.kindScope] = [.network("the network: none"), .condition("login")] },
                [.network("the network: none"), .condition("login")]
            ),
            ("another scope", { $0.job.scope = "192.0.2.1" }, { $0.unmet[Self.kindScope] = [.network("none")] }, [.turn]),
            (
                "limit", { _ in }, Self.limit(2, held: ["send": 2]),
                [.kindLimit(2, kind: "send")]
            ),
            ("room", { _ in }, Self.limit(2, held: ["send": 1, "other": 9]), [.turn]),
            ("behind", { _ in }, { $0.alone = Self.other }, [.behind(Self.other)]),
            ("full", { _ in }, { $0.isFull = true }, [.full]),
            (
                "full and offline", { _ in }, { ($0.isFull, $0.unmet[Self.kindScope]) = (true, [.condition("login")]) },
                [.condition("login")]
            ),
            ("ending", { _ in }, { ($0.isEnding, $0.kinds) = (true, [:]) }, [.otherWorker]),
            (
                "undecodable", { $0.job.softDelay = .init(until: self.at(160), since: self.at(90), isNetwork: false) },
                { $0.undecodable = [Self.id] }, [.undecodable(version: 1, kind: "send")]
            ),
            ("another one undecodable", { _ in }, { $0.undecodable = [Self.other] }, [.turn]),
            (
                "failure before a reconnect", { self.fail(&$0.job, at: 90) },
                { $0.edges[Self.kindScope] = self.at(95).nanoseconds }, [.turn]
            ),
            ("failure before the worker began", { self.fail(&$0.job, at: 90) }, { $0.began = self.at(95).nanoseconds }, [.turn]),
            (
                "failure after a reconnect", { self.fail(&$0.job, at: 95) }, { $0.edges[Self.kindScope] = self.at(95).nanoseconds },
                [.backoff(.seconds(60), isNetwork: true, error: nil)]
            ),
            (
                "server's failure before a reconnect",
                { $0.job.softDelay = .init(until: self.at(160), since: self.at(90), isNetwork: false) },
                { $0.edges[Self.kindScope] = self.at(95).nanoseconds }, [.backoff(.seconds(60), isNetwork: false, error: nil)]
            ),
            ("claimed elsewhere", { ($0.job.state, $0.worker) = (.running, WorkerID(rawValue: 2)) }, { _ in }, [.claimed]),
            ("claimed here", { ($0.job.state, $0.worker) = (.running, WorkerID(rawValue: 1)) }, { _ in }, [.turn]),
            (
                "lonely", { ($0.job.state, $0.worker, $0.job.counters.crashes) = (.running, WorkerID(rawValue: 1), 3) },
                { $0.lonely = [Self.id] }, [.lonely(crashes: 3)]
            ),
        ]
        for (name, change, changeOutlook, wanted) in cases {
            #expect(WaitReason.reasons(for: explanation(change), seenBy: outlook(changeOutlook)) == wanted, "\(name)")
        }
    }

    /// Fails on node `a`, for 60 s from now on.
    private func fail(_ job: inout DurableJob, at time: Int64, networkFailures: Int = 1) {
        job.softDelay = .init(until: at(160), since: at(time), isNetwork: true)
        job.avoidance = .init(node: "a", bootID: "boot", since: at(time).nanoseconds, until: at(160).nanoseconds)
        job.counters.networkFailures = networkFailures
    }

    /// The failure of one node's network delays the job there, and elsewhere for a moment.
    @Test func otherNodesTakeTheJobOver() {
        let whole = [WaitReason.backoff(.seconds(60), isNetwork: true, error: nil)]
        let cases: [(here: String?, failures: Int, wanted: [WaitReason])] = [
            ("a", 1, whole), (nil, 1, whole), ("b", 1, [.turn]), ("b", 9, [.backoff(.seconds(4), isNetwork: true, error: nil)]),
        ]
        for (here, failures, wanted) in cases {
            let explanation = explanation { fail(&$0.job, at: 99, networkFailures: failures) }
            #expect(WaitReason.reasons(for: explanation, seenBy: outlook(), on: here) == wanted)
            let visitors: [WaitReason] = wanted == [.turn] ? [.otherWorker] : wanted
            #expect(WaitReason.reasons(for: explanation, seenBy: nil, on: here) == visitors)
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
