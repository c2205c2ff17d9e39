@testable import ReachableRetry

/// A script, played to the core and to the model; what they disagree on is a fault of one of them.
struct CoreRun {
    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    private var core = RetryBusCore()
    private var model: CoreModel
    private var keys: [JobKey] = []
    /// What an unknown scope will turn out to be.
    private var wanted = [true, true]
    private var ends: [Int] = []

    init() {
        model = CoreModel(conditions: [
            .init(isReachability: true, isKnown: false, unknownUntil: 2000), .init(isReachability: true, isKnown: true),
            .init(isReachability: false, isSatisfied: true, told: 1, isKnown: true), .init(isReachability: false, isKnown: true),
        ])
        for index in model.conditions.indices {
            _ = core.addCondition(
                level(index), isReachability: model.conditions[index].isReachability, unknownUntil: BusTime(.milliseconds(2000)))
        }
    }

    /// Plays a script, then ends all jobs, and looks whether anything is left.
    static func play(_ script: [CoreStep]) throws(Fault) {
        var run = CoreRun()
        for step in script {
            try run.play(step)
            try run.settle()
        }
        try run.endAll()
    }

    private var now: BusTime { BusTime(.milliseconds(model.now)) }

    private func level(_ index: Int) -> Level {
        let condition = model.conditions[index]
        return Level(
            isSatisfied: condition.isSatisfied, epoch: condition.told, isFinished: condition.isFinished, isKnown: condition.isKnown)
    }

    private mutating func play(_ step: CoreStep) throws(Fault) {
        switch step {
        case .submit(let variant, let scope, let extra, let destination):
            guard !model.isShutDown else { return }
            try submit(Variant.all[variant], scope, [[], [], [], [2], [3], [2, 3]][extra], ["a", "b", nil][destination])
        case .level(let index, let isSatisfied):
            if !model.conditions[index].isKnown { return wanted[index] = isSatisfied }
            guard !model.conditions[index].isFinished else { return }
            if isSatisfied, !model.conditions[index].isSatisfied { advanceEpoch(index) }
            model.conditions[index].isSatisfied = isSatisfied
            try tell(index)
        case .edge(let index):
            guard model.conditions[index].isLive else { return }
            advanceEpoch(index)
            try tell(index)
        case .again(let index): try tell(index)
        case .finish(let index):
            model.conditions[index].isFinished = true
            try tell(index)
        case .know(let index):
            guard !model.conditions[index].isKnown, !model.conditions[index].isFinished else { return }
            model.conditions[index].isKnown = true
            model.conditions[index].isSatisfied = wanted[index]
            if wanted[index] { model.conditions[index].told += 1 }
            try tell(index)
        case .succeed(let index):
            guard let index = pick(index, .running) else { return }
            model.reached[model.place(model.jobs[index])] = model.jobs[index].armedScopeEpoch
            model.jobs[index].state = .ended
            ends.append(index)
            try apply(core.succeed(keys[index], at: now))
        case .fail(let index, let report, let isGone):
            guard let index = pick(index, .running) else { return }
            try fail(index, CoreStep.reports[report], isGone)
        case .park(let index, let delay):
            guard let index = pick(index, .judged) else { return }
            model.jobs[index].soft = model.now + max(model.jobs[index].lastWasCharged ? 0 : 500, delay)
            model.jobs[index].state = .parked
            try apply(core.park(keys[index], for: .milliseconds(delay), at: now))
        case .cancel(let index):
            guard !model.jobs.isEmpty else { return }
            model.jobs[index % model.jobs.count].isCancelled = true
            try apply(core.cancel(keys[index % keys.count], at: now))
        case .nudge(let index):
            if let index { model.nudges[index, default: 0] += 1 } else { model.allNudges += 1 }
            try apply(core.nudge(index.map { ConditionIndex($0) }, at: now))
        case .pass(let milliseconds): try pass(to: model.now + milliseconds)
        case .passToNext:
            if model.nextTime < .max { try pass(to: max(model.now, model.nextTime)) }
        case .shutDown(let drain):
            guard !model.isShutDown else { return }
            (model.isShutDown, model.drainEnd) = (true, model.now + drain)
            for index in model.jobs.indices where model.jobs[index].state != .running || drain == 0 {
                model.jobs[index].isCancelled = true
            }
            try apply(core.shutDown(drainEnd: BusTime(.milliseconds(model.drainEnd)), at: now))
            if drain == 0 { model.drainEnd = .max }
        }
    }

    private func pick(_ number: Int, _ state: CoreModel.State) -> Int? {
        let candidates = model.jobs.indices.filter { model.jobs[$0].state == state }
        return candidates.isEmpty ? nil : candidates[number % candidates.count]
    }

    private mutating func advanceEpoch(_ index: Int) {
        model.conditions[index].told += 1
        model.conditions[index].epoch += 1
        model.conditions[index].edgeAt = model.now
    }

    private mutating func tell(_ index: Int) throws(Fault) {
        try apply(core.update(ConditionIndex(index), level(index), at: now))
    }

    private mutating func submit(_ variant: Variant, _ scope: Int, _ extras: [Int], _ destination: String?) throws(Fault) {
        var job = CoreModel.Job(
            variant: variant, scope: scope, extras: extras, destination: destination, submitted: model.now)
        job.armedEpoch = model.epoch(job)
        job.armedNudges = model.nudges(job)
        model.jobs.append(job)
        let (key, _, effects) = core.submit(
            variant.policy.rules, scope: ConditionIndex(scope), conditions: extras.map { ConditionIndex($0) },
            destination: destination, at: now)
        keys.append(key)
        try apply(effects)
    }

    private mutating func pass(to time: Int) throws(Fault) {
        model.now = time
        if model.drainEnd <= time {
            for index in model.jobs.indices where model.jobs[index].state == .running { model.jobs[index].isCancelled = true }
        }
        try apply(core.tick(at: now))
        if model.drainEnd <= time { model.drainEnd = .max }
    }

    private mutating func fail(_ index: Int, _ report: FailureReport, _ isGone: Bool) throws(Fault) {
        let job = model.jobs[index]
        let failure = model.failureClass(job, report, isGone: isGone)
        let isCharged = model.isCharged(job, failure)
        model.jobs[index].state = .parked
        let (judgement, effects) = core.fail(keys[index], report, interruption: job.interruptedBy, isGone: isGone, at: now)
        guard !job.isCancelled else {
            try apply(effects)
            return try check(model.jobs[index].state == .ended, "a cancelled job goes on", index)
        }
        let told = effects.contains {
            if case .tell(_, .failed(failure, isCharged: isCharged)) = $0 { true } else { false }
        }
        try check(told, "it should be \(failure), charged: \(isCharged): \(effects)", index)
        model.jobs[index].lastWasConnectivity = failure == .connectivity
        model.jobs[index].lastWasCharged = isCharged
        if isCharged {
            model.jobs[index].charged += 1
            model.jobs[index].failureIndex += 1
        } else {
            model.jobs[index].connectivityFailures += 1
        }
        if let reason = reasonToStop(index, failure) {
            let isRight = effects.contains { if case .end(_, .gaveUp(reason, _, _)) = $0 { true } else { false } }
            try check(isRight && judgement == .settled, "it should give up for \(reason): \(effects)", index)
        } else if isCharged {
            try expect(judgement, model.jobs[index].failureIndex, index)
        } else if model.isMet(job), model.epoch(job) == job.armedEpoch {
            model.jobs[index].connectivityIndex += 1
            try expect(judgement, model.jobs[index].connectivityIndex, index)
        } else {
            try check(judgement == .settled, "it should not back off", index)
        }
        try apply(effects)
    }

    private mutating func expect(_ judgement: Judgement, _ number: Int, _ index: Int) throws(Fault) {
        guard case .backOff(number, _) = judgement else { return try check(false, "\(judgement), not failure \(number)", index) }
        model.jobs[index].state = .judged
    }

    private mutating func reasonToStop(_ index: Int, _ failure: FailureClass) -> GiveUp.Reason? {
        let job = model.jobs[index]
        if job.interruptedBy == .deadline { return .deadline }
        if failure == .permanent { return .permanent }
        if model.isShutDown { return .shutDown }
        if job.deadline <= model.now { return .deadline }
        if let most = job.variant.most, job.charged >= most { return .attempts }
        if case .server(let delay?) = failure {
            model.jobs[index].hard = max(job.hard, model.now + max(0, Int(delay / .milliseconds(1))))
            if model.jobs[index].hard > job.deadline { return .deadline }
        }
        return nil
    }
}

// MARK: - What must hold

extension CoreRun {
    private func check(_ isTrue: Bool, _ text: String, _ index: Int? = nil) throws(Fault) {
        guard !isTrue else { return }
        let job = index.map { "\njob \($0): \(model.jobs[$0])" } ?? ""
        throw Fault(description: "at \(model.now): \(text)\(job)\nconditions: \(model.conditions)")
    }

    private mutating func apply(_ effects: [Effect]) throws(Fault) {
        model.measure()
        for effect in effects {
            switch effect {
            case .start(let key): try started(try index(key))
            case .interrupt(let key, let interruption): try interrupted(try index(key), interruption)
            case .end(let key, let ending): try ended(try index(key), ending)
            case .tell: break
            }
        }
        model.measure()
    }

    private func index(_ key: JobKey) throws(Fault) -> Int {
        // A job may start before its key is known.
        guard let index = keys.firstIndex(of: key) else { return keys.count }
        return index
    }

    private mutating func started(_ index: Int) throws(Fault) {
        let job = model.jobs[index]
        try check(job.state == .parked, "it starts while \(job.state)", index)
        try check(model.isMet(job), "it starts though something is missing", index)
        try check(model.release(job) <= model.now, "it starts too early", index)
        try check(job.deadline > model.now, "it starts after its deadline", index)
        try check(!model.isShutDown, "it starts after the end", index)
        let epoch = model.epoch(job)
        if epoch != job.armedEpoch {
            let isReset =
                job.variant.rule == .resetBackoff || (job.variant.rule == .automatic && job.lastWasConnectivity)
            if isReset { model.jobs[index].failureIndex = 0 }
            model.jobs[index].connectivityIndex = 0
        }
        model.jobs[index].state = .running
        model.jobs[index].started += 1
        model.jobs[index].startedAt = model.now
        model.jobs[index].soft = .min
        model.jobs[index].armedEpoch = epoch
        model.jobs[index].armedScopeEpoch = model.conditions[job.scope].epoch
        model.jobs[index].armedNudges = model.nudges(job)
        (model.jobs[index].isInterrupted, model.jobs[index].interruptedBy) = (false, nil)
    }

    private mutating func interrupted(_ index: Int, _ interruption: JobState.Interruption) throws(Fault) {
        let job = model.jobs[index]
        try check(job.state == .running && !job.isInterrupted, "it is interrupted while \(job.state)", index)
        let isRight =
            switch interruption {
            case .cancelled: job.isCancelled
            case .deadline: job.deadline <= model.now
            case .timeout: job.variant.timeout.map { job.startedAt + $0 <= model.now } ?? false
            case .unsatisfied: job.variant.grace.map { (job.missingSince ?? .max) <= model.now - $0 } ?? false
            }
        try check(isRight, "it is interrupted because \(interruption)", index)
        (model.jobs[index].isInterrupted, model.jobs[index].interruptedBy) = (true, interruption)
    }

    private mutating func ended(_ index: Int, _ ending: Ending) throws(Fault) {
        let job = model.jobs[index]
        try check(job.state != .ended, "it ends twice", index)
        switch ending {
        case .cancelled: try check(job.isCancelled, "it is cancelled by nobody", index)
        case .gaveUp(let reason, let tally, _):
            try check(
                tally.started == job.started && tally.charged == job.charged
                    && tally.connectivityFailures == job.connectivityFailures,
                "its story is wrong: \(tally)", index)
            switch reason {
            case .waitLimit:
                let isRight = job.variant.waitLimit.map { (job.scopeWaitSince ?? .max) <= model.now - $0 } ?? false
                try check(isRight, "it waited long enough for no limit", index)
            case .conditionEnded: try check(model.isHopeless(job), "its conditions may still come", index)
            default: break
            }
        }
        model.jobs[index].state = .ended
        ends.append(index)
    }

    /// Lets happen what is due, and checks what must be true between any two events.
    private mutating func settle() throws(Fault) {
        var rounds = 0
        while core.nextTime() <= now {
            try pass(to: model.now)
            rounds += 1
            try check(rounds < 100, "its time never passes")
        }
        model.measure()
        for index in model.jobs.indices {
            let job = model.jobs[index]
            if job.state == .parked {
                try check(!(model.isMet(job) && model.release(job) <= model.now), "its wake-up was lost", index)
                try check(job.deadline > model.now, "it outlives its deadline", index)
                try check(!model.isHopeless(job), "it waits for what cannot come", index)
                try check(!model.isShutDown, "it waits after the end", index)
            }
            if job.state == .running, !job.isInterrupted {
                try check(job.deadline > model.now && !job.isCancelled, "it should have been interrupted", index)
            }
            try check(job.charged <= job.variant.most ?? .max, "it was charged too often", index)
            let isOpen = job.state == .running || job.isCancelled ? 1 : 0
            try check(
                job.started <= job.charged + job.connectivityFailures + isOpen || job.state == .ended, "it started too often", index
            )
            try check((core[keys[index]] == nil) == (job.state == .ended), "the core disagrees about its end", index)
        }
        let next = core.nextTime()
        let expected = model.nextTime == .max ? BusTime.never : BusTime(.milliseconds(model.nextTime))
        try check(next == expected, "the next time is \(next), not \(expected)")
        try check(core.count == model.jobs.count { $0.state != .ended }, "\(core.count) jobs")
    }

    private mutating func endAll() throws(Fault) {
        for index in model.jobs.indices {
            try play(.cancel(job: index))
            if model.jobs[index].state == .running { try fail(index, .unclassified, false) }
            try settle()
        }
        try check(core.count == 0 && core.timerCount == 0 && core.nextTime() == .never, "jobs or timers are left")
        try check(ends.count == model.jobs.count, "\(ends.count) ends of \(model.jobs.count) jobs")
        for index in model.conditions.indices {
            let record = core.conditions[index]
            let isEmpty =
                record.map { $0.waiting.isEmpty && $0.attentive.isEmpty && $0.interruptible.isEmpty && $0.uses == 0 } ?? false
            try check(isEmpty && core.removeCondition(ConditionIndex(index)), "condition \(index) is still used")
        }
    }
}
