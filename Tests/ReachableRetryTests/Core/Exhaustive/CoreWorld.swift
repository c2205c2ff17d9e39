import StateExploration

@testable import ReachableRetry

/// One state of the exploration: a core and the facts about its past.
///
/// The checks compute expected values from these facts. Times are milliseconds.
struct CoreWorld: ExplorableWorld {
    /// A setting to explore.
    struct Setting: Sendable {
        /// One job; jobs are submitted in the order of their numbers.
        struct Job: Equatable, Sendable {
            var variant = Variant(maxAttempts: 2)
            var scope = 0
            /// The other conditions that it waits for: scopes, and behind them the program's conditions.
            var others: [Int] = []
            var destination: String?
            var priority = JobPriority.normal
            /// The job whose attempt awaits it from its submission, if one runs then.
            var parent: Int?
            /// The jobs whose attempts may begin to wait for it.
            var joiners: [Int] = []
        }

        /// A reported failure; the delay ordered by the server lies between the shortest and the longest backoff.
        enum Failure: String, CaseIterable {
            case connectivity
            case transient
            case server
            case permanent

            static let hardDelay = 1500

            var report: FailureReport {
                switch self {
                case .connectivity: .classified(.network)
                case .transient: .classified(.transient)
                case .server: .classified(.overload(retryAfter: .milliseconds(Self.hardDelay)))
                case .permanent: .classified(.permanent)
                }
            }
        }

        var name: String
        var release = ReleasePolicy.immediate
        var maxConcurrent: Int?
        var jobs: [Job]
        var scopes = 2
        /// The number of conditions of the program itself, which may finish.
        var sources = 0
        /// The limit of the edges of each scope and condition; `nil` for no limit.
        var epochs: Int? = 3
        var retryNows = 1
        var cancellations = 1
        var failures = Failure.allCases
        /// The backoffs: shorter and longer than the delay ordered by the server.
        var delays = [1000, 2000]
    }

    /// An input of the core.
    enum Step: CustomStringConvertible {
        case submit
        case join(Int, by: Int)
        case up(Int)
        case down(Int)
        case edge(Int)
        case finish(Int)
        case succeed(Int)
        case fail(Int, Setting.Failure, delay: Int)
        case cancel(Int)
        case retryNow(Int)
        case pass

        var description: String {
            switch self {
            case .submit: "submit the next job"
            case .join(let job, let joiner): "job \(joiner) waits for job \(job)"
            case .up(let scope): "scope \(scope) becomes satisfied"
            case .down(let scope): "scope \(scope) is lost"
            case .edge(let scope): "scope \(scope) changes"
            case .finish(let condition): "condition \(condition) finishes"
            case .succeed(let job): "job \(job) succeeds"
            case .fail(let job, let failure, let delay): "job \(job) fails: \(failure), with a backoff of \(delay) ms"
            case .cancel(let job): "job \(job) is cancelled"
            case .retryNow(let scope): "retry now for scope \(scope)"
            case .pass: "time passes to the next timer"
            }
        }
    }

    struct Fault: Error, CustomStringConvertible {
        var text: String
        var description: String { text }
    }

    /// A scope or a condition of the program.
    struct Scope {
        var isUp: Bool
        var isFinished = false
        /// The number of its edges.
        var epoch = 0
        var retryNows = 0
    }

    enum State { case parked, running, ended }

    struct Job {
        var key: JobKey?
        var state = State.parked
        var submitted: Int
        var soft = Int.min
        var hard = Int.min
        var started = 0
        var charged = 0
        /// The epochs at the start of the last attempt.
        var armed: Int
        var armedScope: Int
        var armedRetryNows: Int
        /// The sum of epochs and calls to retry now at the last delay that was cut short.
        var voidedAt = -1
        var startedAt = 0
        var isCancelled = false
        var interruptedBy: JobState.Interruption?
        /// True if its attempt started while its gate was probing.
        var isProbe = false
        /// The attempts that wait for it.
        var lenders: [AttemptKey] = []
    }

    /// The gate of one scope and destination.
    struct Gate {
        var exists = false
        var isProbing = false
        var throttledUntil = Int.min
        var pacedAt = Int.min
    }

    let setting: Setting
    /// The index of each job's gate.
    let places: [Int]
    /// The orders of jobs that differ only by swaps of equal jobs.
    let jobOrders: [[Int]]
    var core: RetryBusCore
    var now = 0
    var scopes: [Scope]
    var jobs: [Job] = []
    var gates: [Gate]
    var edgesAt: [Int?]
    var retryNowsLeft: Int
    var cancellationsLeft: Int

    init(_ setting: Setting) {
        self.setting = setting
        let names = setting.jobs.map { "\($0.scope) \($0.destination ?? "")" }
        places = names.map { name in names.firstIndex(of: name) ?? 0 }
        // A job that lends its place is like no other.
        let lenders = Set(setting.jobs.flatMap { $0.joiners + [$0.parent].compactMap(\.self) })
        func areAlike(_ left: Int, _ right: Int) -> Bool {
            left == right || lenders.isDisjoint(with: [left, right]) && setting.jobs[left] == setting.jobs[right]
        }
        jobOrders = setting.jobs.indices.reduce([[]]) { orders, _ in
            orders.flatMap { order in
                setting.jobs.indices.filter { !order.contains($0) && areAlike($0, order.count) }.map { order + [$0] }
            }
        }
        core = RetryBusCore(release: setting.release, maxConcurrent: setting.maxConcurrent, seed: 1)
        // Only the first scope is satisfied.
        scopes = (0..<setting.scopes + setting.sources).map { Scope(isUp: $0 == 0) }
        gates = names.map { _ in Gate() }
        edgesAt = scopes.map { _ in nil }
        (retryNowsLeft, cancellationsLeft) = (setting.retryNows, setting.cancellations)
        for (index, scope) in scopes.enumerated() {
            _ = core.addCondition(
                Level(isSatisfied: scope.isUp), isReachability: index < setting.scopes, unknownUntil: .start)
        }
    }

    var fingerprint: CoreFingerprint { CoreFingerprint(self) }

    var time: BusTime { BusTime(.milliseconds(now)) }

    func scope(_ job: Int) -> Int { setting.jobs[job].scope }

    func mode(_ job: Int) -> Variant.Mode { setting.jobs[job].variant.mode }

    func deadline(_ job: Int) -> Int { setting.jobs[job].variant.elapsed.map { jobs[job].submitted + $0 } ?? .max }

    func epoch(_ job: Int) -> Int {
        let own = mode(job) == .ignore ? 0 : scopes[scope(job)].epoch
        return setting.jobs[job].others.reduce(own) { $0 + scopes[$1].epoch }
    }

    func isMet(_ job: Int) -> Bool {
        (mode(job) != .wait || scopes[scope(job)].isUp) && setting.jobs[job].others.allSatisfy { scopes[$0].isUp }
    }

    /// True if it waits for a condition that will never be satisfied.
    func isHopeless(_ job: Int) -> Bool { setting.jobs[job].others.contains { scopes[$0].isFinished && !scopes[$0].isUp } }

    /// Returns the end of the job's delays: an edge or a call to retry now since the last start ends the soft delay.
    func release(_ job: Int) -> Int {
        let isVoided = epoch(job) != jobs[job].armed || scopes[scope(job)].retryNows != jobs[job].armedRetryNows
        return max(jobs[job].hard, isVoided ? .min : jobs[job].soft)
    }

    /// True if a gate may delay it.
    func isGated(_ job: Int) -> Bool { mode(job) == .wait }

    /// The jobs that have not ended or were not submitted yet.
    private var unfinishedJobs: some Sequence<Int> {
        setting.jobs.indices.lazy.filter { $0 >= jobs.count || jobs[$0].state != .ended }
    }

    /// True if any unfinished job uses a scope.
    func isOfInterest(scope: Int) -> Bool {
        unfinishedJobs.contains { self.scope($0) == scope || setting.jobs[$0].others.contains(scope) }
    }

    /// True if any unfinished job uses a gate.
    func isOfInterest(gate place: Int) -> Bool { unfinishedJobs.contains { places[$0] == place } }

    // MARK: - Steps

    /// Returns the possible next steps.
    func steps() -> [Step] {
        var steps: [Step] = []
        if jobs.count < setting.jobs.count { steps.append(.submit) }
        for (index, scope) in scopes.enumerated() where isOfInterest(scope: index) && !scope.isFinished {
            if scope.isUp { steps.append(.down(index)) }
            if scope.epoch < setting.epochs ?? .max { steps.append(scope.isUp ? .edge(index) : .up(index)) }
            if index >= setting.scopes {
                steps.append(.finish(index))
            } else if retryNowsLeft > 0 {
                steps.append(.retryNow(index))
            }
        }
        for (index, job) in jobs.enumerated() {
            if job.state != .ended { steps += joiners(of: index).map { .join(index, by: $0) } }
            if job.state == .running {
                steps.append(.succeed(index))
                steps += setting.failures.flatMap { failure in setting.delays.map { .fail(index, failure, delay: $0) } }
            }
            if cancellationsLeft > 0, job.state != .ended, !job.isCancelled { steps.append(.cancel(index)) }
        }
        if !core.nextTime().isNever { steps.append(.pass) }
        return steps
    }

    mutating func play(_ step: Step) throws(Fault) {
        switch step {
        case .submit: try submit()
        case .join(let index, let joiner):
            guard let attempt = attempt(joiner) else { return }
            jobs[index].lenders.append(attempt)
            try apply(core.lend(attempt, to: key(index), at: time))
        case .up(let index): try change(index, isUp: true, isEdge: true)
        case .down(let index): try change(index, isUp: false, isEdge: false)
        case .edge(let index): try change(index, isUp: true, isEdge: true)
        case .finish(let index):
            scopes[index].isFinished = true
            try change(index, isUp: scopes[index].isUp, isEdge: false)
        case .succeed(let index):
            notePassage(index)
            jobs[index].state = .ended
            try apply(core.succeed(key(index), at: time))
        case .fail(let index, let failure, let delay): try fail(index, failure, delay: delay)
        case .cancel(let index):
            cancellationsLeft -= 1
            jobs[index].isCancelled = true
            try apply(core.cancel(key(index), at: time))
        case .retryNow(let index):
            retryNowsLeft -= 1
            scopes[index].retryNows += 1
            try apply(core.retryNow(ConditionIndex(index), at: time))
        case .pass:
            // Round up: every time in the core is a whole millisecond here.
            now = max(now, Int((core.nextTime().nanoseconds + 999_999) / 1_000_000))
            try apply(core.tick(at: time))
        }
        try settle()
    }

    /// The running attempt of a job.
    func attempt(_ index: Int) -> AttemptKey? {
        guard index < jobs.count, jobs[index].state == .running, let key = jobs[index].key else { return nil }
        return AttemptKey(key, jobs[index].started)
    }

    /// The jobs whose attempts may begin to wait for a job.
    private func joiners(of index: Int) -> [Int] {
        setting.jobs[index].joiners.filter { joiner in attempt(joiner).map { !jobs[index].lenders.contains($0) } ?? false }
    }

    /// True if the running attempt of a job waits for a job that has not ended.
    func waits(_ index: Int) -> Bool {
        guard let attempt = attempt(index) else { return false }
        return jobs.contains { $0.state != .ended && $0.lenders.contains(attempt) }
    }

    func key(_ index: Int) -> JobKey { jobs[index].key ?? JobKey(index: -1, generation: 0) }

    private mutating func submit() throws(Fault) {
        let index = jobs.count
        let job = setting.jobs[index]
        jobs.append(Job(submitted: now, armed: 0, armedScope: scopes[job.scope].epoch, armedRetryNows: scopes[job.scope].retryNows))
        jobs[index].armed = epoch(index)
        jobs[index].lenders = [job.parent.flatMap(attempt)].compactMap(\.self)
        let place = places[index]
        if !gates[place].exists {
            gates[place].exists = true
            gates[place].isProbing = edgesAt[job.scope].map { now - $0 <= 30_000 } ?? false
        }
        let (key, _, effects) = core.submit(
            job.variant.policy().rules, scope: ConditionIndex(job.scope), conditions: job.others.map { ConditionIndex($0) },
            destination: job.destination, priority: job.priority, lenders: jobs[index].lenders, at: time)
        jobs[index].key = key
        try apply(effects)
    }

    private mutating func change(_ index: Int, isUp: Bool, isEdge: Bool) throws(Fault) {
        scopes[index].isUp = isUp
        if isEdge {
            scopes[index].epoch += 1
            edgesAt[index] = now
            for job in jobs.indices where scope(job) == index {
                gates[places[job]].isProbing = true
                jobs[job].isProbe = false
            }
        }
        let level = Level(isSatisfied: isUp, epoch: UInt64(scopes[index].epoch), isFinished: scopes[index].isFinished)
        try apply(core.update(ConditionIndex(index), level, at: time))
    }
}
