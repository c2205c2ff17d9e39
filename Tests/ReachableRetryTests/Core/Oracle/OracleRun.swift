import Testing

@testable import ReachableRetry

/// A script that is played to the core and to the oracle; they must agree after every step.
struct OracleRun {
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

    static func play(_ script: [CoreStep], _ setting: Setting, seed: UInt64) throws(CoreRun.Fault) {
        var run = OracleRun(setting, seed: seed)
        for step in script {
            try run.play(step)
            try run.settle()
        }
    }

    // MARK: - Steps

    private mutating func play(_ step: CoreStep) throws(CoreRun.Fault) {
        switch step {
        case .submit(let variant, let scope, let extra, let destination, let priority):
            guard !oracle.isShutDown else { return }
            submit(
                Variant.all[variant], scope: scope, extras: CoreRun.extras[extra], destination: ["a", "b", nil][destination],
                JobPriority.allCases[priority])
        case .level, .edge, .repeatLevel, .flap, .calm, .evaluate, .finish, .know, .resync: playLevel(step)
        case .giveUpFirstVerdict(let index):
            note(core.stopWaitingForTheFirstLook(ConditionIndex(index), at: now))
            oracle.giveUpFirstVerdict(of: index)
        case .lose(let index):
            note(core.lose(ConditionIndex(index), at: now))
            oracle.lose(index)
        case .removeUnusedConditions: removeUnusedConditions()
        case .succeed(let job):
            guard let job = pick(job, .running) else { return }
            note(core.succeed(keys[job], at: now))
            oracle.succeed(job)
        case .fail(let job, let report, let isGone, let isOvertaken):
            guard let job = pick(job, .running) else { return }
            try fail(job, CoreStep.reports[report], isGone, isOvertaken)
        case .park(let job, let delay):
            guard let job = pick(job, .failed) else { return }
            note(core.park(keys[job], for: .milliseconds(delay), at: now))
            oracle.park(job, for: .milliseconds(delay))
        case .cancel(let job):
            guard !keys.isEmpty else { return }
            note(core.cancel(keys[job % keys.count], at: now))
            oracle.cancel(job % keys.count)
        case .lateResult(let job):
            guard let job = pick(job, .ended) else { return }
            note(core.succeed(keys[job], at: now) + core.cancel(keys[job], at: now))
        case .retryNow(let scope):
            note(core.retryNow(scope.map { ConditionIndex($0) }, at: now))
            oracle.retryNow(scope)
        case .pause(let job, let isPaused):
            guard let job = pick(job, nil) else { return }
            note(isPaused ? core.pause(keys[job], at: now) : core.resume(keys[job], at: now))
            oracle.setPaused(isPaused, job)
        case .need(let job, let extra):
            guard let job = pick(job, nil) else { return }
            note(core.setConditions(CoreRun.extras[extra].map { ConditionIndex($0) }, of: keys[job], at: now))
            oracle.setExtras(CoreRun.extras[extra], job)
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

    private func pick(_ number: Int, _ state: CoreModel.State?) -> Int? {
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
        note(effects)
        oracle.submit(variant, scope: scope, extras: extras, destination: destination, priority: priority)
    }

    private mutating func fail(
        _ job: Int, _ report: FailureReport, _ isGone: Bool, _ isOvertaken: Bool
    ) throws(CoreRun.Fault) {
        let interruption = isOvertaken ? nil : oracle.jobs[job].interruption
        let (outcome, effects) = core.fail(keys[job], report, interruption: interruption, isGone: isGone, at: now)
        note(effects)
        let expected = oracle.fail(job, report, interruption: interruption, isGone: isGone)
        try check(outcome == expected, "job \(job) failed: \(outcome), not \(expected)")
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
    private mutating func removeUnusedConditions() {
        for index in levels.indices.dropFirst() where core.removeCondition(ConditionIndex(index)) {
            _ = addCondition(index)
            oracle.replace(index, condition(index))
        }
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
            case .end(let key, let ending): actions.append((number(key), .end(ending)))
            case .announce, .handBack, .warnOfShortage: break
            case .publish(let changed, let change):
                actions.append((number(changed.key), .publishing(change, waited: changed.waited)))
            }
        }
    }

    /// Returns the job's number; a job may start before its key is known.
    private func number(_ key: JobKey) -> Int { keys.firstIndex(of: key) ?? keys.count }

    /// Handles everything that is due, then compares.
    private mutating func settle() throws(CoreRun.Fault) {
        for job in oracle.running {
            let sources = CoreRun.sources(of: job, attempt: oracle.jobs[job].started)
            note(core.setSources(sources.map { ConditionIndex($0) }, of: keys[job], at: now))
            oracle.setSources(sources, job)
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
    private mutating func compareActions() throws(CoreRun.Fault) {
        let (starts, expectedStarts) = (starts(actions), starts(oracle.actions))
        try check(starts == expectedStarts, "they start in the order \(starts), not \(expectedStarts)")
        for job in Set(actions.map(\.job) + oracle.actions.map(\.job)).sorted() {
            // An event may name any of several unmet conditions; `CoreRun` checks that it is unmet.
            let found = actions.filter { $0.job == job && !$0.action.isWait }.map(\.action)
            let expected = oracle.actions.filter { $0.job == job && !$0.action.isWait }.map(\.action)
            try check(found == expected, "job \(job) does \(found), not \(expected)")
        }
        actions = []
        oracle.actions = []
    }

    private func starts(_ actions: [(job: Int, action: CoreOracle.Action)]) -> [Int] {
        actions.filter { $0.action == .start }.map(\.job)
    }

    private func compare(_ index: Int) throws(CoreRun.Fault) {
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

    private func check(_ isTrue: Bool, _ text: @autoclosure () -> String) throws(CoreRun.Fault) {
        if !isTrue { throw fault(text()) }
    }

    private func fault(_ text: String) -> CoreRun.Fault {
        let jobs = oracle.living.map { "job \($0): \(oracle.jobs[$0])" }
        let lines = jobs + oracle.conditions.map { "\($0)" } + oracle.gates.map { "\($0)" }
        return CoreRun.Fault(description: "at \(now.duration): \(text)\n" + lines.joined(separator: "\n"))
    }
}
