@testable import ReachableRetry

/// The invariants of each state and each step.
extension CoreWorld {
    func check(_ isTrue: Bool, _ text: @autoclosure () -> String, _ job: Int? = nil) throws(Fault) {
        guard !isTrue else { return }
        throw Fault(text: "at \(now): \(text())" + (job.map { "\njob \($0): \(jobs[$0])" } ?? ""))
    }

    var hasCanaries: Bool { setting.release.rules.hasCanaries }

    mutating func apply(_ effects: [Effect]) throws(Fault) {
        for effect in effects {
            switch effect {
            case .start(let key): try started(index(key))
            case .announce(let key): try check(false, "it is announced, and has no reader", index(key))
            case .interrupt(let key, let interruption):
                let index = index(key)
                try check(
                    jobs[index].state == .running && jobs[index].interruptedBy == nil, "it is interrupted, but does not run", index)
                jobs[index].interruptedBy = interruption
            case .end(let key, _):
                let index = index(key)
                try check(
                    jobs[index].state != .ended && jobs[index].state != .running, "it ends though it is \(jobs[index].state)", index
                )
                jobs[index].state = .ended
                _ = core.takeEnded(key)
            case .handBack(let key, _): try check(false, "it is handed back, and was not submitted so", index(key))
            case .publish(let changed, .succeeded): _ = core.takeEnded(changed.key)
            case .publish, .warnOfShortage: break
            }
        }
    }

    /// Returns the job's number; a job may start before its key is known.
    private func index(_ key: JobKey) -> Int { jobs.firstIndex { $0.key == key } ?? jobs.count - 1 }

    // MARK: - Attempts

    private mutating func started(_ index: Int) throws(Fault) {
        let job = jobs[index]
        try check(job.state == .parked, "it starts while it is \(job.state)", index)
        try check(isMet(index), "it starts with an unmet condition", index)
        try check(job.hard <= now, "it starts during the delay ordered by its server", index)
        try check(release(index) <= now, "it starts during its backoff", index)
        try check(deadline(index) > now, "it starts after its deadline", index)
        try check(job.charged < setting.jobs[index].variant.maxAttempts ?? .max, "it has no attempt left", index)
        if job.soft > now {
            let voidedAt = epoch(index) + scopes[scope(index)].retryNows
            try check(job.voidedAt != voidedAt, "one edge cuts two delays short", index)
            jobs[index].voidedAt = voidedAt
        }
        if let lender = try lender(of: index) {
            // In a borrowed place it passes everything but an order of its server.
            try checkServerDelay(index)
            let waits = lender.lenders.contains { attempt in jobs[index].lenders.contains(attempt) }
            try check(waits, "its lender does not wait", index)
            jobs[index].isProbe = false
        } else if isGated(index) {
            try checkGate(index)
        }
        jobs[index].state = .running
        jobs[index].started += 1
        jobs[index].startedAt = now
        jobs[index].soft = .min
        jobs[index].interruptedBy = nil
        jobs[index].armed = epoch(index)
        jobs[index].armedScope = scopes[scope(index)].epoch
        jobs[index].armedRetryNows = scopes[scope(index)].retryNows
    }

    mutating func fail(_ index: Int, _ failure: Setting.Failure, delay: Int) throws(Fault) {
        let job = jobs[index]
        let scope = scopes[scope(index)]
        // A server's answer is never overruled.
        let isInterrupted = job.interruptedBy == .loss && failure != .server
        let overlaps = mode(index) != .ignore && (scope.epoch != job.armedScope || !scope.isUp)
        let isNetworks = isInterrupted || failure == .connectivity || failure != .server && overlaps
        let isCharged = !isInterrupted && (!isNetworks || mode(index) != .wait)
        if isInterrupted || failure != .server {
            jobs[index].hard = job.hard
        } else {
            jobs[index].hard = max(job.hard, now + Setting.Failure.hardDelay)
        }
        if isCharged { jobs[index].charged += 1 }
        jobs[index].state = .parked
        let isOver =
            job.isCancelled || job.interruptedBy == .deadline || failure == .permanent
            || deadline(index) <= now || isCharged && jobs[index].charged >= setting.jobs[index].variant.maxAttempts ?? .max
            || jobs[index].hard > deadline(index) || isHopeless(index)
        // Without a gate the network's failures are delayed, too, unless its conditions already decide.
        let isOwn = isCharged || isMet(index) && epoch(index) == job.armed && !(hasCanaries && isGated(index))
        if isOwn { jobs[index].soft = now + max(isCharged ? 0 : 500, delay) }
        noteFailure(index, failure, isCharged: isCharged)
        let effects = core.fail(
            key(index), failure.report, interruption: job.interruptedBy, isGone: false,
            delays: FailureDelays(.milliseconds(delay)), at: time)
        let isPublished = effects.contains { if case .publish(_, .failed(_, isCharged)) = $0 { true } else { false } }
        try check(isPublished || job.isCancelled, "its failure is charged: \(!isCharged)", index)
        let hasEnded = effects.contains { if case .end = $0 { true } else { false } }
        try check(hasEnded == isOver, "it ends: \(hasEnded)", index)
        if !isOwn, let soft = core[key(index)]?.history.soft, soft != .past {
            // The gate chose the delay.
            jobs[index].soft = Int(soft.nanoseconds / 1_000_000)
        }
        try apply(effects)
    }

    // MARK: - Gates

    /// Records a success or an answer: the gate stops probing.
    mutating func notePassage(_ index: Int) {
        if jobs[index].armedScope == scopes[scope(index)].epoch { gates[places[index]].isProbing = false }
    }

    private mutating func noteFailure(_ index: Int, _ failure: Setting.Failure, isCharged: Bool) {
        guard isGated(index), !jobs[index].isCancelled else { return }
        let isCurrent = jobs[index].armedScope == scopes[scope(index)].epoch
        if failure == .server {
            notePassage(index)
            if setting.jobs[index].destination != nil {
                gates[places[index]].throttledUntil = max(gates[places[index]].throttledUntil, now + Setting.Failure.hardDelay)
            }
        }
        let isOver = jobs[index].interruptedBy == .deadline || deadline(index) <= now
        // After an edge of any of its conditions the job tries again at once, and the gate learns nothing.
        let hasEdge = hasCanaries && epoch(index) != jobs[index].armed
        if !isCharged, isMet(index), isCurrent, !hasEdge, !isOver { gates[places[index]].isProbing = true }
    }

    private func checkServerDelay(_ index: Int) throws(Fault) {
        let isOver = setting.jobs[index].destination == nil || gates[places[index]].throttledUntil <= now
        try check(isOver, "it starts during the delay ordered by its server", index)
    }

    private mutating func checkGate(_ index: Int) throws(Fault) {
        let rules = setting.release.rules
        let place = places[index]
        guard let job = core[key(index)] ?? core.jobs.last ?? nil else { return }
        let isInteractive = setting.jobs[index].priority == .interactive
        if let pace = rules.pace, !rules.hasCanaries || !core.gates[job.gate].isOpen && !isInteractive {
            let interval = Int(pace.interval / .milliseconds(1))
            let isOnTime = gates[place].pacedAt == .min || now - gates[place].pacedAt >= interval
            try check(isOnTime || job.attempt?.pass == .canary, "it starts faster than the pace", index)
            gates[place].pacedAt = max(gates[place].pacedAt == .min ? now : gates[place].pacedAt + interval, now)
        }
        jobs[index].isProbe = false
        guard rules.hasCanaries else { return }
        try checkServerDelay(index)
        // Attempts that run for long do not count.
        let beside = jobs.indices.filter { other in
            other != index && places[other] == place && jobs[other].state == .running && jobs[other].startedAt + 5000 > now
        }
        if gates[place].isProbing {
            jobs[index].isProbe = true
            let probes = beside.filter { jobs[$0].isProbe }
            let interactive = probes.count { setting.jobs[$0].priority == .interactive }
            if isInteractive {
                try check(interactive <= rules.interactiveBypass, "\(interactive) interactive jobs probe", index)
            } else {
                try check(probes.count == interactive, "another job probes already", index)
                let isOver = core.gates[job.gate].probe.map { $0.retryAt <= time } ?? true
                try check(isOver, "it does not wait for the gate's backoff", index)
            }
        }
        let round = job.attempt?.round
        let counted = beside.filter { other in
            core[key(other)]?.attempt.map { $0.pass != .free && ($0.round != round || $0.pass != .bypass) } ?? false
        }
        let isFull = counted.count >= rules.maxInFlight && core.gates[job.gate].isRamping
        if job.attempt?.pass == .window { try check(!isFull, "the window is full", index) }
        try check(job.attempt?.pass != .free, "it is not counted", index)
    }

    // MARK: - States

    /// Handles everything that is due, then checks the invariants between two steps.
    mutating func settle() throws(Fault) {
        var rounds = 0
        while core.nextTime() <= time {
            try apply(core.tick(at: time))
            rounds += 1
            try check(rounds < 20, "the next time stays in the past")
        }
        for index in jobs.indices { try settled(index) }
        try checkPlaces()
        try checkQueues()
        try checkCounts()
        try checkTime()
        guard jobs.allSatisfy({ $0.state == .ended }) else { return }
        try check(core.timerCount == 0 && core.gateTimers.count == 0 && core.nextTime() == .never, "timers are left")
    }

    private func settled(_ index: Int) throws(Fault) {
        let job = jobs[index]
        guard let state = core[key(index)] else { return try check(job.state == .ended, "the core has removed it", index) }
        try check(job.state != .ended, "the core still has it", index)
        if job.state == .running {
            try check(job.interruptedBy != nil || deadline(index) > now, "it outlives its deadline", index)
        }
        guard job.state == .parked else { return }
        try check(deadline(index) > now && !job.isCancelled, "it waits after its end", index)
        try check(!isHopeless(index), "it waits for a condition that has finished", index)
        guard isMet(index), release(index) <= now else { return }
        // An attempt that waits for it would lend its place.
        for lender in job.lenders.compactMap({ attempt in jobs.indices.first { self.attempt($0) == attempt } }) {
            let isThrottled = setting.jobs[index].destination != nil && gates[places[index]].throttledUntil > now
            try check(isThrottled || borrower(of: lender) != nil, "job \(lender) does not lend it its place", index)
        }
        // A ready job runs, unless its gate will start it.
        let isBusy = core.running >= core.maxConcurrent
        if !isGated(index) || setting.release == .immediate { return try check(isBusy, "its wake-up was lost", index) }
        let mates = jobs.indices.contains { places[$0] == places[index] && jobs[$0].state == .running }
        try check(state.isQueued, "it is not queued", index)
        try check(isBusy || mates || core.gateTimers.count > 0, "no gate will start it", index)
    }

    /// Checks that each running attempt has a place of its own, or that of exactly one other, and that all places are counted.
    private func checkPlaces() throws(Fault) {
        let running = jobs.indices.filter { jobs[$0].state == .running }
        var borrowed: [JobIndex: Int] = [:]
        var owners: [Int32: Int] = [:]
        for index in running {
            switch core[key(index)]?.attempt?.place {
            case .borrowed(let lender)?:
                try check(borrowed.updateValue(index, forKey: lender) == nil, "it shares a borrowed place", index)
                try check(running.contains { key($0).index == lender }, "it keeps the place of an attempt that has ended", index)
            case .own?: owners[core[key(index)]?.gate ?? -1, default: 0] += 1
            case Place.none?, nil: try check(false, "it has no place", index)
            }
        }
        let places = running.count - borrowed.count
        try check(core.running == places && places <= core.maxConcurrent, "\(core.running) places are taken, not \(places)")
        for index in jobs.indices {
            guard let gate = core[key(index)]?.gate else { continue }
            try check(core.gates[gate].running == owners[gate, default: 0], "its destination counts wrongly", index)
        }
    }

    /// Returns the job that uses the place of a running attempt.
    private func borrower(of lender: Int) -> Int? {
        jobs.indices.first { jobs[$0].state == .running && core[key($0)]?.attempt?.place == .borrowed(from: key(lender).index) }
    }

    /// Returns the place that a job that starts has borrowed: the running job, with its attempt among its lenders.
    private func lender(of index: Int) throws(Fault) -> Job? {
        let state = core[key(index)] ?? core.jobs.last ?? nil
        guard case .borrowed(let place)? = state?.attempt?.place else { return nil }
        guard let lender = jobs.indices.first(where: { key($0).index == place && jobs[$0].state == .running }) else {
            throw Fault(text: "at \(now): job \(index) borrows the place of a job that does not run")
        }
        var job = jobs[lender]
        job.lenders = [attempt(lender)].compactMap(\.self)
        return job
    }

    /// Checks that each queued job has one current entry in its queue, and one with each attempt that waits for it.
    private func checkQueues() throws(Fault) {
        for index in jobs.indices {
            guard let job = core[key(index)] else { continue }
            let isCurrent = { [core] (entry: GateQueue.Entry) in core.jobs[Int(entry.job)]?.isQueued(as: entry) == true }
            for queueClass in QueueClass.allCases {
                let queue = core.gates[job.gate].queues[queueClass]
                let entries = queue.entries(isCurrent: isCurrent)
                try check(
                    entries.count == queue.count && Set(entries.map(\.job)).count == queue.count, "a queue counts wrongly", index)
                let isIn = entries.contains { $0.job == key(index).index }
                try check(isIn == (job.isQueued && queueClass == QueueClass(job)), "it is in the wrong queue", index)
            }
            guard attempt(index) != nil else { continue }
            let queued = jobs.indices.filter { other in
                core[key(other)]?.isQueued == true && jobs[other].lenders.contains { $0 == attempt(index) }
            }
            let offered = core.loans.names(of: key(index).index).flatMap { name in
                core.loans.queue(name, of: key(index).index)?.entries(isCurrent: isCurrent).map(\.job) ?? []
            }
            try check(offered.sorted() == queued.map { key($0).index }.sorted(), "it lends to \(offered), not \(queued)", index)
        }
    }

    /// Checks that a gate counts the running attempts.
    private func checkCounts() throws(Fault) {
        guard hasCanaries else { return }
        for index in jobs.indices where jobs[index].key != nil {
            guard let place = core[key(index)]?.gate else { continue }
            let gate = core.gates[place]
            let running = jobs.compactMap { job in
                job.key.flatMap { core[$0] }.flatMap { $0.gate == place && $0.attempt?.pass != .free ? $0.attempt : nil }
            }
            let passes = running.map { $0.round == gate.round ? $0.pass : .window }
            let canaries = passes.count { $0 == .canary }
            let bypasses = passes.count { $0 == .bypass }
            let counted = passes.count - bypasses
            try check(gate.inFlight == counted && gate.bypassing == bypasses, "the gate counts wrongly: \(passes)", index)
            try check(canaries == (gate.hasCanary ? 1 : 0), "\(canaries) canaries", index)
            try check(bypasses <= setting.release.rules.interactiveBypass, "\(bypasses) bypass", index)
            try check(!gate.isRamping || gate.window <= setting.release.rules.maxInFlight, "its window is too wide", index)
        }
    }

    /// Checks the next time, which follows from the jobs alone if there are no gates.
    private mutating func checkTime() throws(Fault) {
        let isPredictable = setting.jobs.allSatisfy {
            $0.variant.waitLimit == nil && $0.variant.grace == nil && $0.variant.timeout == nil
        }
        guard setting.release == .immediate, setting.maxConcurrent == nil, isPredictable else { return }
        var expected = Int.max
        for index in jobs.indices {
            switch jobs[index].state {
            case .ended: break
            case .running:
                if jobs[index].interruptedBy == nil, !jobs[index].isCancelled { expected = min(expected, deadline(index)) }
            case .parked: expected = min(expected, deadline(index), isMet(index) ? release(index) : .max)
            }
        }
        let next = core.nextTime()
        let isRight = next.isNever ? expected == .max : next == BusTime(.milliseconds(expected))
        try check(isRight, "the next time is \(next), not \(expected)")
    }

    // MARK: - The end

    /// Returns the next step if every attempt succeeds; `nil` when all jobs have ended.
    ///
    /// A scope becomes satisfied only if there is no other step.
    func stepTowardsTheEnd() throws(Fault) -> Step? {
        // An attempt ends when the jobs that it waits for have ended.
        if let running = jobs.indices.first(where: { jobs[$0].state == .running && !waits($0) }) { return .succeed(running) }
        guard jobs.contains(where: { $0.state != .ended }) else { return nil }
        if !core.nextTime().isNever { return .pass }
        guard let lost = scopes.firstIndex(where: { !$0.isUp && !$0.isFinished }) else {
            throw Fault(text: "no timer is set, but jobs wait, or wait for each other: \(jobs)")
        }
        return .up(lost)
    }

    func checkEnd() throws(Fault) {
        guard jobs.allSatisfy({ $0.state == .ended }) else { throw Fault(text: "jobs do not end: \(jobs)") }
    }
}
