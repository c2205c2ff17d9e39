@testable import ReachableRetry

/// A script that is played to the core and to the model; they must agree.
struct CoreRun {
    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    var core: RetryBusCore
    /// True if jobs start without delay, so that the model can predict everything.
    let isExact: Bool
    var model: CoreModel
    var keys: [JobKey] = []
    private(set) var numbers: [UInt64] = []
    /// The jobs that have ended.
    var ends: [Int] = []
    /// The jobs with a published end.
    var publishedEnds: [Int] = []
    /// The first verdicts of unknown scopes.
    private var firstVerdicts = [true, true]
    /// The conditions that jobs used since the last removal.
    private var used: Set<Int> = []
    /// The conditions that the core reported as unused since the last removal.
    private var idle: Set<Int> = []

    init(_ release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil) {
        core = RetryBusCore(release: release, maxConcurrent: maxConcurrent, seed: 7)
        isExact = release == .immediate && maxConcurrent == nil
        model = CoreModel(conditions: [
            .init(isReachability: true, isKnown: false, unknownUntil: 2000), .init(isReachability: true, isKnown: true),
            .init(isReachability: false, isSatisfied: true, levelEpoch: 1, isKnown: true),
            .init(isReachability: false, isKnown: true),
            // Two source addresses.
            .init(isReachability: true, isSatisfied: true, levelEpoch: 1, isKnown: true),
            .init(isReachability: true, isSatisfied: true, levelEpoch: 1, isKnown: true),
        ])
        for index in model.conditions.indices { _ = addCondition(index) }
    }

    /// Plays a script, then ends all jobs and checks that nothing is left.
    static func play(
        _ script: [CoreStep], _ release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil
    ) throws(Fault) {
        var run = CoreRun(release, maxConcurrent: maxConcurrent)
        for step in script {
            try run.play(step)
            try run.settle()
        }
        if !run.isExact { try run.finishAllJobs() }
        try run.endAll()
    }

    var now: BusTime { BusTime(.milliseconds(model.now)) }

    private func level(_ index: Int) -> Level {
        let condition = model.conditions[index]
        var level = Level(
            isSatisfied: condition.isSatisfied, epoch: condition.levelEpoch, isFinished: condition.isFinished,
            isKnown: condition.isKnown)
        level.isUnsteady = condition.isUnsteady
        return level
    }

    private mutating func addCondition(_ index: Int) -> ConditionIndex {
        core.addCondition(
            level(index), isReachability: model.conditions[index].isReachability,
            unknownUntil: BusTime(.milliseconds(model.now + 2000)))
    }

    mutating func play(_ step: CoreStep) throws(Fault) {
        switch step {
        case .submit(let variant, let scope, let extra, let destination, let priority):
            guard !model.isShutDown else { return }
            try submit(
                CoreModel.Job(
                    variant: Variant.all[variant], scope: scope, extras: Self.extras[extra],
                    destination: ["a", "b", nil][destination], priority: JobPriority.allCases[priority], submitted: model.now))
        case .level(let index, let isSatisfied):
            if !model.conditions[index].isKnown { return firstVerdicts[index] = isSatisfied }
            guard !model.conditions[index].isFinished else { return }
            if isSatisfied, !model.conditions[index].isSatisfied { advanceEpoch(index) }
            model.conditions[index].isSatisfied = isSatisfied
            try update(index)
        case .edge(let index):
            guard model.conditions[index].isLive else { return }
            advanceEpoch(index)
            try update(index)
        case .repeatLevel(let index): try update(index)
        case .flap(let index, let times):
            for time in 1...times {
                try play(.level(condition: index, isSatisfied: false))
                if time > 5 { model.conditions[index].isUnsteady = true }
                try play(.level(condition: index, isSatisfied: true))
            }
        case .suspend(let milliseconds):
            try pass(to: model.now + milliseconds)
            for scope in 0...1 { try play(.edge(condition: scope)) }
        case .resync: for index in model.conditions.indices { try update(index) }
        // The oracle checks which jobs this delays.
        case .lose: break
        case .evaluate(let index): try update(index)
        case .calm(let index):
            model.conditions[index].isUnsteady = false
            try update(index)
        case .finish(let index):
            model.conditions[index].isFinished = true
            try update(index)
        case .know(let index):
            guard !model.conditions[index].isKnown, !model.conditions[index].isFinished else { return }
            model.conditions[index].isKnown = true
            model.conditions[index].isSatisfied = firstVerdicts[index]
            if firstVerdicts[index] { model.conditions[index].levelEpoch += 1 }
            try update(index)
        case .giveUpFirstVerdict(let index):
            model.conditions[index].unknownUntil = min(model.now, model.conditions[index].unknownUntil)
            try apply(core.stopWaitingForTheFirstLook(ConditionIndex(index), at: now))
        case .removeUnusedConditions: try removeUnusedConditions()
        case .succeed(let index):
            guard let index = pick(index, .running) else { return }
            noteAnswer(index)
            notePassage(index)
            model.end(index)
            ends.append(index)
            try apply(core.succeed(keys[index], at: now))
        case .fail(let index, let report, let isGone, let isOvertaken):
            guard let index = pick(index, .running) else { return }
            if isOvertaken { model.jobs[index].interruptedBy = nil }
            try fail(index, CoreStep.reports[report], isGone)
        case .park(let index, let delay):
            guard let index = pick(index, .failed) else { return }
            try park(index, delay)
        case .cancel(let index):
            guard !model.jobs.isEmpty else { return }
            model.jobs[index % model.jobs.count].isCancelled = true
            try apply(core.cancel(keys[index % keys.count], at: now))
        case .lateResult(let index):
            guard let index = pick(index, .ended) else { return }
            try lateResult(index)
        case .retryNow(let index):
            if let index { model.retryNows[index, default: 0] += 1 } else { model.allRetryNows += 1 }
            let effects = core.retryNow(index.map { ConditionIndex($0) }, at: now)
            if let index { try check(effects) { $0.scope == index } }
            try apply(effects)
        case .pause(let index, let isPaused):
            guard let index = pickLiving(index) else { return }
            model.jobs[index].isPaused = isPaused
            try apply(isPaused ? core.pause(keys[index], at: now) : core.resume(keys[index], at: now))
        case .need(let index, let extra):
            guard let index = pickLiving(index) else { return }
            try need(index, Self.extras[extra])
        case .pass(let milliseconds): try pass(to: model.now + milliseconds)
        case .passToNext:
            if let next = nextTime { try pass(to: max(model.now, next)) }
        case .shutDown(let drain):
            model.isShutDown = true
            model.drainEnd = min(model.drainEnd, model.now + drain)
            let isOver = model.drainEnd <= model.now
            for index in model.jobs.indices where model.jobs[index].state != .running || isOver {
                model.jobs[index].isCancelled = true
            }
            try apply(core.shutDown(drainEnd: BusTime(.milliseconds(model.now + drain)), at: now))
            if isOver { model.drainEnd = .max }
        }
    }

    private func pick(_ number: Int, _ state: CoreModel.State) -> Int? {
        let candidates = model.jobs.indices.filter { model.jobs[$0].state == state }
        return candidates.isEmpty ? nil : candidates[number % candidates.count]
    }

    static let extras = [[], [], [], [2], [3], [2, 3]]

    /// Returns the source addresses of an attempt's connections: one of either family, or both.
    static func sources(of index: Int, attempt: Int) -> [Int] { [[4], [5], [4, 5]][(index + attempt) % 3] }

    private func pickLiving(_ number: Int) -> Int? {
        let candidates = model.jobs.indices.filter { model.jobs[$0].state != .ended }
        return candidates.isEmpty ? nil : candidates[number % candidates.count]
    }

    /// Changes a job's conditions; the number of edges since it was armed stays the same.
    private mutating func need(_ index: Int, _ extras: [Int]) throws(Fault) {
        let missed = model.epoch(model.jobs[index]) - model.jobs[index].armedEpoch
        used.formUnion(model.jobs[index].extras + extras)
        model.jobs[index].extras = extras
        model.jobs[index].armedEpoch = model.epoch(model.jobs[index]) - missed
        try apply(core.setConditions(extras.map { ConditionIndex($0) }, of: keys[index], at: now))
    }

    /// Reports the source addresses of running attempts to the core, which must ignore all but the first report.
    mutating func connect() throws(Fault) {
        for index in model.jobs.indices where model.jobs[index].state == .running {
            let job = model.jobs[index]
            let sources = Self.sources(of: index, attempt: job.started)
            if job.variant.heedsSource {
                model.jobs[index].sources = sources
                used.formUnion(sources)
            }
            try apply(core.setSources(sources.map { ConditionIndex($0) }, of: keys[index], at: now))
        }
    }

    // MARK: - Conditions

    private mutating func advanceEpoch(_ index: Int) {
        model.conditions[index].levelEpoch += 1
        model.conditions[index].epoch += 1
        model.conditions[index].edgeAt = model.now
        noteEdge(index)
    }

    private mutating func update(_ index: Int) throws(Fault) {
        let effects = core.update(ConditionIndex(index), level(index), at: now)
        try check(effects) { $0.needs(index) }
        try apply(effects)
    }

    /// Removes unused conditions, as a bus does; condition 0 stays, as does the scope of a bus's monitor.
    private mutating func removeUnusedConditions() throws(Fault) {
        idle.formUnion(core.takeIdleConditions().map { Int($0) })
        for index in model.conditions.indices where used.contains(index) {
            let isUsed = model.jobs.contains { $0.state != .ended && $0.needs(index) }
            try check(isUsed || idle.contains(index), "condition \(index) is unused, but was not reported")
            if index == 0 { continue }
            try check(core.removeCondition(ConditionIndex(index)) != isUsed, "condition \(index) is used: \(isUsed)")
            guard !isUsed else { continue }
            model.removeCondition(index)
            try check(addCondition(index) == index, "the index of the removed condition is not reused")
        }
        idle = []
        used = used.filter { index in model.jobs.contains { $0.state != .ended && $0.needs(index) } }
    }

    // MARK: - Jobs

    private mutating func submit(_ job: CoreModel.Job) throws(Fault) {
        var job = job
        job.armedEpoch = model.epoch(job)
        job.armedRetryNows = model.retryNows(job)
        model.jobs.append(job)
        noteGate(of: job)
        used.formUnion([job.scope] + job.extras)
        let (key, number, effects) = core.submit(
            job.variant.policy.rules, scope: ConditionIndex(job.scope), conditions: job.extras.map { ConditionIndex($0) },
            destination: job.destination, priority: job.priority, at: now)
        try check(numbers.last.map { number > $0 } ?? true, "job \(keys.count) has the number \(number)")
        keys.append(key)
        numbers.append(number)
        try apply(effects)
    }

    mutating func pass(to time: Int) throws(Fault) {
        model.now = time
        if model.drainEnd <= time {
            for index in model.jobs.indices where model.jobs[index].state == .running { model.jobs[index].isCancelled = true }
        }
        try apply(core.tick(at: now))
        if model.drainEnd <= time { model.drainEnd = .max }
    }

    private mutating func park(_ index: Int, _ delay: Int) throws(Fault) {
        let last = model.jobs[index]
        model.jobs[index].soft = model.now + max(last.lastFault == .local ? 1000 : last.lastWasCharged ? 0 : 500, delay)
        model.jobs[index].state = .parked
        model.jobs[index].previousDelay = delay
        let job = model.jobs[index]
        let effects = core.park(keys[index], for: .milliseconds(delay), at: now)
        let rest = max(model.release(job), model.now) - model.now
        let isPublished = effects.contains { if case .publish(_, .backingOff(.milliseconds(rest))) = $0 { true } else { false } }
        let backsOff = !job.isPaused && model.isMet(job) && rest > 0 && job.deadline > model.now && !model.isHopeless(job)
        try check(isPublished == backsOff, "it backs off: \(backsOff); effects: \(effects)", index)
        try apply(effects)
    }

    /// Checks that a late result of an ended job changes no job, not even the next one with its index.
    private mutating func lateResult(_ index: Int) throws(Fault) {
        let (outcome, effects) = core.fail(keys[index], .unclassified, interruption: nil, isGone: false, at: now)
        let others =
            core.succeed(keys[index], at: now) + core.park(keys[index], for: .zero, at: now) + core.cancel(keys[index], at: now)
        try check(
            outcome == .settled && effects.isEmpty && others.isEmpty, "a late result has effects: \(effects) \(others)", index)
    }

    mutating func fail(_ index: Int, _ report: FailureReport, _ isGone: Bool) throws(Fault) {
        let job = model.jobs[index]
        let fault = model.fault(job, report, isGone: isGone)
        let failure = AttemptFailure(fault, mayRetry: report.mayRetry)
        let isCharged = model.isCharged(job, fault)
        model.jobs[index].state = .parked
        // Every answer of a server proves the path.
        if !job.isCancelled, isAnswer(report, fault) {
            noteAnswer(index)
            if job.variant.isGated { notePassage(index) }
        }
        if fault == .local, !job.isCancelled {
            model.shortage = (max(1, model.jobs.count { $0.state == .running }), model.now)
        }
        let (outcome, effects) = core.fail(keys[index], report, interruption: job.interruptedBy, isGone: isGone, at: now)
        guard !job.isCancelled else {
            try apply(effects)
            return try check(model.jobs[index].state == .ended, "a cancelled job goes on", index)
        }
        let isPublished = effects.contains {
            if case .publish(_, .failed(failure, isCharged: isCharged)) = $0 { true } else { false }
        }
        try check(isPublished, "it should be \(failure), charged: \(isCharged): \(effects)", index)
        if case .overload(let delay?) = fault, delay > .zero, job.destination != nil {
            let end = model.now + Int(delay / .milliseconds(1))
            model.serverDelays[model.gate(job)] = max(model.serverDelays[model.gate(job), default: .min], end)
        }
        model.jobs[index].lastFault = fault
        model.jobs[index].lastWasCharged = isCharged
        if isCharged { model.jobs[index].charged += 1 }
        if isCharged || fault == .local { model.jobs[index].failureIndex += 1 }
        if fault == .local { model.jobs[index].localFailures += 1 }
        if fault == .network, !isCharged { model.jobs[index].networkFailures += 1 }
        if fault == .network, report.evidence == .unreachable { model.jobs[index].unreachableIn = job.armedScopeEpoch }
        if report.evidence == .noNameServer { model.jobs[index].answersAtNameFailure = model.answers[job.scope, default: 0] }
        if let reason = reasonToStop(index, failure) {
            let isCut = reason == .deadline && job.interruptedBy == .deadline
            let isRight = effects.contains { if case .end(_, .gaveUp(reason, _, isCut: isCut)) = $0 { true } else { false } }
            try check(isRight && outcome == .settled, "it should give up for \(reason): \(effects)", index)
        } else if isCharged || fault == .local {
            try expect(outcome, model.jobs[index].failureIndex, index)
        } else if model.isMet(job), model.epoch(job) == job.armedEpoch, hasCanaries, job.variant.isGated {
            try delayedByGate(index, outcome)
        } else if model.isMet(job), model.epoch(job) == job.armedEpoch {
            model.jobs[index].connectivityIndex += 1
            try expect(outcome, model.jobs[index].connectivityIndex, index)
        } else {
            try check(outcome == .settled, "it should not back off", index)
        }
        try apply(effects)
    }

    private func isAnswer(_ report: FailureReport, _ fault: AttemptFailure.Fault) -> Bool {
        switch report.evidence {
        case .classified(.server), .classified(.overload), .classified(.request): true
        case .refused: fault == .server
        default: false
        }
    }

    private mutating func noteAnswer(_ index: Int) {
        let job = model.jobs[index]
        model.reached[model.gate(job)] = job.armedScopeEpoch
        model.answers[job.scope, default: 0] += 1
    }

    private mutating func expect(_ outcome: FailureOutcome, _ number: Int, _ index: Int) throws(Fault) {
        let previous = model.jobs[index].previousDelay.map { Duration.milliseconds($0) }
        try check(outcome == .backOff(index: number, previous: previous), "\(outcome), not failure \(number)", index)
        model.jobs[index].state = .failed
    }

    private mutating func reasonToStop(_ index: Int, _ failure: AttemptFailure) -> GiveUp.Reason? {
        let job = model.jobs[index]
        if job.interruptedBy == .deadline { return .deadline }
        if !failure.mayRetry { return .permanent }
        if model.isShutDown { return .shutDown }
        if job.deadline <= model.now { return .deadline }
        if let limit = job.variant.maxAttempts, job.charged >= limit { return .attempts }
        if case .overload(let delay?) = failure.fault {
            model.jobs[index].hard = max(job.hard, model.now + max(0, Int(delay / .milliseconds(1))))
            if model.jobs[index].hard > job.deadline { return .deadline }
        }
        return nil
    }
}
