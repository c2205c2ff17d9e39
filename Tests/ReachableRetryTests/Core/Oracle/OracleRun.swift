import Testing

@testable import ReachableRetry

/// A script that is played to the core and to the oracle; they must agree after every step.
struct OracleRun {
    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    /// The configuration of a bus.
    struct Setting: Sendable, CustomTestStringConvertible {
        var name: String
        var release: ReleasePolicy
        var maxConcurrent: Int?
        var maxPerDestination: Int?
        var budget: OracleBudget.Rule?
        var fleetSize = 1

        var testDescription: String { name }
    }

    private(set) var core: RetryBusCore
    private(set) var oracle: CoreOracle
    private let budget: RetryBudget?
    private var keys: [JobKey] = []
    private var levels: [Level]
    /// The first verdicts of unknown scopes.
    private var firstVerdicts = [true, true]
    private var now = BusTime.start
    /// The core's actions since the last comparison.
    private var actions: [(job: Int, action: CoreOracle.Action)] = []
    /// The condition that each job was last reported to wait for since its last start.
    private var reportedWaits: [Int: Int] = [:]
    private var ends: [Int] = []
    /// The conditions that jobs have used, and those that the core has reported as unused, since the last removal.
    private var used: Set<Int> = []
    private var idle: Set<Int> = []

    init(_ setting: Setting, seed: UInt64) {
        core = RetryBusCore(
            release: setting.release, maxConcurrent: setting.maxConcurrent,
            maxConcurrentPerDestination: setting.maxPerDestination, seed: seed)
        core.fleetSize = setting.fleetSize
        let budget = setting.budget.map(OracleBudget.init)
        oracle = CoreOracle(
            release: setting.release.rules, maxConcurrent: setting.maxConcurrent ?? .max,
            maxPerDestination: setting.maxPerDestination ?? .max, fleetSize: setting.fleetSize, budget: budget,
            random: SplitMix64(seed: seed))
        self.budget = budget?.budget
        levels = [
            Level(isSatisfied: false, isKnown: false), Level(isSatisfied: false), Level(isSatisfied: true, epoch: 1),
            Level(isSatisfied: false), Level(isSatisfied: true, epoch: 1), Level(isSatisfied: true, epoch: 1),
        ]
        for index in levels.indices {
            _ = addCondition(index)
            oracle.conditions.append(condition(index))
        }
    }

    /// Plays a script, then lets all jobs end and checks that nothing is left.
    static func play(_ script: [CoreStep], _ setting: Setting, seed: UInt64) throws(Fault) {
        var run = OracleRun(setting, seed: seed)
        for step in script {
            try run.play(step)
            try run.settle()
        }
        try run.finishAllJobs()
        try run.checkEnd()
    }

    static let extras = [[], [], [], [2], [3], [2, 3]]

    /// Returns the source addresses of an attempt's connections: one of either family, or both.
    private static func sources(of index: Int, attempt: Int) -> [Int] { [[4], [5], [4, 5]][(index + attempt) % 3] }

    // MARK: - Steps

    private mutating func play(_ step: CoreStep) throws(Fault) {
        switch step {
        case .submit(let variant, let scope, let extra, let destination, let priority):
            guard !oracle.isShutDown else { return }
            submit(
                Variant.all[variant], scope: scope, extras: Self.extras[extra], destination: ["a", "b", nil][destination],
                JobPriority.allCases[priority])
        case .level, .edge, .repeatLevel, .flap, .calm, .evaluate, .finish, .know, .resync: playLevel(step)
        case .giveUpFirstVerdict(let index):
            note(core.stopWaitingForTheFirstLook(ConditionIndex(index), at: now))
            oracle.giveUpFirstVerdict(of: index)
        case .lose(let index):
            note(core.lose(ConditionIndex(index), at: now))
            oracle.lose(index)
        case .removeUnusedConditions: try removeUnusedConditions()
        case .succeed(let job):
            guard let job = pick(job, .running) else { return }
            note(core.succeed(keys[job], at: now))
            oracle.succeed(job)
        case .fail(let job, let report, let isGone, let isOvertaken, let delay):
            guard let job = pick(job, .running) else { return }
            try fail(job, CoreStep.reports[report], isGone, isOvertaken, delay: .milliseconds(delay))
        case .cancel(let job):
            guard !keys.isEmpty else { return }
            note(core.cancel(keys[job % keys.count], at: now))
            oracle.cancel(job % keys.count)
        case .lateResult(let job):
            guard let job = pick(job, .ended) else { return }
            try checkLateResult(of: job)
        case .retryNow(let scope):
            note(core.retryNow(scope.map { ConditionIndex($0) }, at: now))
            oracle.retryNow(scope)
        case .pause(let job, let isPaused):
            guard let job = pick(job, nil) else { return }
            note(isPaused ? core.pause(keys[job], at: now) : core.resume(keys[job], at: now))
            oracle.setPaused(isPaused, job)
        case .need(let job, let extra):
            guard let job = pick(job, nil) else { return }
            used.formUnion(Self.extras[extra])
            note(core.setConditions(Self.extras[extra].map { ConditionIndex($0) }, of: keys[job], at: now))
            oracle.setExtras(Self.extras[extra], job)
        case .pass(let milliseconds):
            pass(to: now + .milliseconds(milliseconds))
            tick()
        case .passToNext:
            guard !oracle.nextTime.isNever else { return }
            pass(to: max(now, oracle.nextTime))
            tick()
        case .suspend(let milliseconds):
            pass(to: now + .milliseconds(milliseconds))
            for scope in 0...1 { playLevel(.edge(condition: scope)) }
            tick()
        case .shutDown(let drain):
            note(core.shutDown(drainEnd: now + .milliseconds(drain), at: now))
            oracle.shutDown(drainEnd: now + .milliseconds(drain))
        }
    }

    private mutating func playLevel(_ step: CoreStep) {
        switch step {
        case .level(let index, let isSatisfied):
            if !levels[index].isKnown { return firstVerdicts[index] = isSatisfied }
            guard !levels[index].isFinished else { return }
            if isSatisfied, !levels[index].isSatisfied { levels[index].epoch += 1 }
            levels[index].isSatisfied = isSatisfied
            update(index)
        case .edge(let index):
            guard levels[index].isKnown, !levels[index].isFinished else { return }
            levels[index].epoch += 1
            update(index)
        case .repeatLevel(let index): update(index)
        case .resync: for index in levels.indices { update(index) }
        case .flap(let index, let times):
            for time in 1...times {
                playLevel(.level(condition: index, isSatisfied: false))
                if time > 5 { levels[index].isUnsteady = true }
                playLevel(.level(condition: index, isSatisfied: true))
            }
        case .calm(let index):
            levels[index].isUnsteady = false
            update(index)
        case .evaluate(let index):
            levels[index].evaluation += 1
            update(index)
        case .finish(let index):
            levels[index].isFinished = true
            update(index)
        case .know(let index):
            guard !levels[index].isKnown, !levels[index].isFinished else { return }
            levels[index] = Level(isSatisfied: firstVerdicts[index], epoch: levels[index].epoch + (firstVerdicts[index] ? 1 : 0))
            update(index)
        default: break
        }
    }

    private func pick(_ number: Int, _ state: CoreOracle.State?) -> Int? {
        let candidates = oracle.jobs.indices.filter { index in
            state.map { oracle.jobs[index].state == $0 } ?? (oracle.jobs[index].state != .ended)
        }
        return candidates.isEmpty ? nil : candidates[number % candidates.count]
    }

    private mutating func submit(
        _ variant: Variant, scope: Int, extras: [Int], destination: String?, _ priority: JobPriority
    ) {
        let (key, _, effects) = core.submit(
            variant.policy(budget: budget).rules, scope: ConditionIndex(scope), conditions: extras.map { ConditionIndex($0) },
            destination: destination, priority: priority, at: now)
        keys.append(key)
        used.formUnion([scope] + extras)
        note(effects)
        oracle.submit(variant, scope: scope, extras: extras, destination: destination, priority: priority)
    }

    private mutating func fail(
        _ job: Int, _ report: FailureReport, _ isGone: Bool, _ isOvertaken: Bool, delay: Duration
    ) throws(Fault) {
        let interruption = isOvertaken ? nil : oracle.jobs[job].interruption
        var delays = FailureDelays(delay)
        // Which one the core takes shows.
        (delays.network, delays.first) = (delay + .milliseconds(1), delay + .milliseconds(2))
        note(core.fail(keys[job], report, interruption: interruption, isGone: isGone, delays: delays, at: now))
        oracle.fail(job, report, interruption: interruption, isGone: isGone, delays: delays)
        guard let history = core[keys[job]]?.history else { return }
        let (found, expected) = (
            [Int(history.failureIndex), Int(history.connectivityIndex)],
            [oracle.jobs[job].failureIndex, oracle.jobs[job].connectivityIndex]
        )
        try check(found == expected, "the failures of job \(job) count as \(found), not \(expected)")
        try check(history.previousDelay == oracle.jobs[job].previousDelay, "job \(job) has another delay as its last")
    }

    private mutating func update(_ index: Int) {
        note(core.update(ConditionIndex(index), levels[index], at: now))
        oracle.update(index, levels[index])
    }

    private mutating func addCondition(_ index: Int) -> ConditionIndex {
        core.addCondition(levels[index], isReachability: index < 2 || index > 3, unknownUntil: now + .seconds(2))
    }

    private func condition(_ index: Int) -> CoreOracle.Condition {
        CoreOracle.Condition(levels[index], isReachability: index < 2 || index > 3, unknownUntil: now + .seconds(2))
    }

    /// Removes unused conditions; condition 0 stays, as does the scope of a bus's monitor.
    private mutating func removeUnusedConditions() throws(Fault) {
        idle.formUnion(core.takeIdleConditions().map { Int($0) })
        let needed = Set(levels.indices.filter { index in oracle.living.contains { oracle.needs(oracle.jobs[$0], index) } })
        let unused = used.subtracting(needed)
        try check(unused.isSubset(of: idle), "\(idle) were reported as unused, and not all of \(unused)")
        for index in levels.indices.dropFirst() {
            let isRemoved = core.removeCondition(ConditionIndex(index))
            try check(isRemoved != needed.contains(index), "condition \(index) is removed: \(isRemoved)")
            guard isRemoved else { continue }
            try check(Int(addCondition(index)) == index, "the index of a removed condition is not used again")
            oracle.replace(index, condition(index))
        }
        (used, idle) = (needed, [])
    }

    // MARK: - The end

    /// Checks that a late result changes no job, not even the next one with its index.
    private mutating func checkLateResult(of job: Int) throws(Fault) {
        let failed = core.fail(
            keys[job], .unclassified, interruption: nil, isGone: false, delays: FailureDelays(.zero), at: now)
        let effects = failed + core.succeed(keys[job], at: now) + core.cancel(keys[job], at: now)
        try check(effects.isEmpty, "the late result of \(job) has effects: \(effects)")
    }

    /// Lets all conditions be satisfied and every attempt succeed: all jobs end.
    private mutating func finishAllJobs() throws(Fault) {
        func step(_ run: inout Self, _ step: CoreStep) throws(Fault) {
            try run.play(step)
            try run.settle()
        }
        for index in levels.indices where !oracle.isShutDown {
            for each in [CoreStep.know(condition: index), .level(condition: index, isSatisfied: true), .calm(condition: index)] {
                try step(&self, each)
            }
        }
        for job in oracle.jobs.indices where oracle.jobs[job].isPaused && oracle.jobs[job].state != .ended {
            note(core.resume(keys[job], at: now))
            oracle.setPaused(false, job)
            try settle()
        }
        let end = now + .seconds(300)
        while let job = oracle.living.first {
            if !oracle.running.isEmpty {
                try step(&self, .succeed(job: 0))
            } else {
                try check(!oracle.nextTime.isNever, "no timer is set, but job \(job) waits")
                try step(&self, .passToNext)
            }
            try check(now < end, "the jobs take too long")
        }
    }

    /// Checks that no job, timer, gate or use of a condition is left, and that each job has ended once.
    private mutating func checkEnd() throws(Fault) {
        try check(core.timerCount == 0 && core.gateTimers.count == 0, "timers are left")
        try check(ends.sorted() == Array(keys.indices), "\(ends) have ended of \(keys.count)")
        for index in levels.indices {
            let record = core.conditions[index]
            let isEmpty = record.map { $0.waiting.isEmpty && $0.attentive.isEmpty && $0.interruptible.isEmpty } ?? false
            try check(isEmpty && core.removeCondition(ConditionIndex(index)), "condition \(index) is still used")
        }
        try check(core.gates.count == 0, "gates are left")
    }

    private mutating func pass(to time: BusTime) {
        now = time
        oracle.pass(to: time)
    }

    private mutating func tick() {
        note(core.tick(at: now))
        oracle.tick()
    }

    // MARK: - Comparing

    private mutating func note(_ effects: [Effect]) {
        for effect in effects {
            switch effect {
            case .start(let key):
                actions.append((number(key), .start))
                _ = core.begin(key, at: now)
            case .interrupt(let key, let interruption): actions.append((number(key), .interrupt(interruption)))
            case .end(let key, let ending):
                actions.append((number(key), .end(ending)))
                _ = core.takeEnded(key)
            case .announce, .handBack, .warnOfShortage: break
            case .publish(let changed, let change):
                let job = number(changed.key)
                switch change {
                case .waiting(let condition): reportedWaits[job] = Int(condition)
                case .started: reportedWaits[job] = nil
                case .succeeded:
                    ends.append(job)
                    _ = core.takeEnded(changed.key)
                case .ended: ends.append(job)
                case .failed, .backingOff, .warned: break
                }
                actions.append((job, .publishing(change, waited: changed.waited)))
            }
        }
    }

    /// Returns the job's number; a job may start before its key is known.
    private func number(_ key: JobKey) -> Int { keys.firstIndex(of: key) ?? keys.count }

    /// Handles everything that is due, then compares.
    private mutating func settle() throws(Fault) {
        for job in oracle.running {
            let sources = Self.sources(of: job, attempt: oracle.jobs[job].started)
            note(core.setSources(sources.map { ConditionIndex($0) }, of: keys[job], at: now))
            oracle.setSources(sources, job)
            used.formUnion(oracle.jobs[job].sources)
        }
        var rounds = 0
        while min(core.nextTime(), oracle.nextTime) <= now, rounds < 100 {
            tick()
            rounds += 1
        }
        try compareActions()
        let next = core.nextTime()
        try check(next == oracle.nextTime, "the next time is \(next), not \(oracle.nextTime)")
        try check(core.running == oracle.running.count, "\(core.running) attempts run, not \(oracle.running.count)")
        try check(core.count == oracle.living.count, "\(core.count) jobs are left, not \(oracle.living.count)")
        for index in oracle.living { try compare(index) }
        for key in keys.indices where oracle.jobs[key].state == .ended { try check(core[keys[key]] == nil, "job \(key) is left") }
    }

    /// Compares the order of starts, and all actions of each job.
    private mutating func compareActions() throws(Fault) {
        let (starts, expectedStarts) = (starts(actions), starts(oracle.actions))
        try check(starts == expectedStarts, "they start in the order \(starts), not \(expectedStarts)")
        for job in Set(actions.map(\.job) + oracle.actions.map(\.job)).sorted() {
            // An event may name any of several unmet conditions.
            let found = actions.filter { $0.job == job && !$0.action.isWait }.map(\.action)
            let expected = oracle.actions.filter { $0.job == job && !$0.action.isWait }.map(\.action)
            try check(found == expected, "job \(job) does \(found), not \(expected)")
        }
        // What holds a queued job beside its scope is known at its turn only.
        for job in oracle.living where oracle.jobs[job].state == .parked && !oracle.jobs[job].isPaused {
            let (unmet, reported) = (oracle.unmet(oracle.jobs[job]), reportedWaits[job])
            if oracle.jobs[job].place == .queued, unmet.first != oracle.jobs[job].scope { continue }
            let isRight = reported.map { unmet.contains($0) } ?? (oracle.jobs[job].reportedWait == nil)
            try check(unmet.isEmpty || isRight, "job \(job) waits for \(unmet), and is reported to wait for \(reported ?? -1)")
        }
        actions = []
        oracle.actions = []
    }

    private func starts(_ actions: [(job: Int, action: CoreOracle.Action)]) -> [Int] {
        actions.filter { $0.action == .start }.map(\.job)
    }

    private func compare(_ index: Int) throws(Fault) {
        guard let description = core.description(of: keys[index], at: now) else {
            throw fault("job \(index) has ended")
        }
        let expected = oracle.report(index)
        let found = CoreOracle.Report(
            state: description.state, unmet: description.unmet.map { Int($0) }, softDelay: description.softDelay,
            hardDelay: description.hardDelay, timeLeft: description.timeLeft,
            start: core.currentStart(of: keys[index], at: now))
        try check(found == expected, "job \(index) is \(found), not \(expected)")
    }

    private func check(_ isTrue: Bool, _ text: @autoclosure () -> String) throws(Fault) {
        if !isTrue { throw fault(text()) }
    }

    private func fault(_ text: String) -> Fault {
        let jobs = oracle.living.map { "job \($0): \(oracle.jobs[$0])" }
        let lines = jobs + oracle.conditions.map { "\($0)" } + oracle.gates.map { "\($0)" }
        return Fault(description: "at \(now.duration): \(text)\n" + lines.joined(separator: "\n"))
    }
}
