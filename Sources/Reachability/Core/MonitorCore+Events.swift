extension MonitorCore {
    /// Takes over what the batch says about its source.
    mutating func count(_ batch: NetworkEventBatch) {
        health.spoofed.addSaturating(batch.spoofed)
        health.malformed.addSaturating(batch.malformed)
        health.drops.addSaturating(batch.drops)
        health.reopens.addSaturating(batch.reopens)
        isPolled = batch.isPolled
        impairment = batch.impairment
        if !isBlind && health.impairment != impairment { health.impairment = impairment }
        if let size = batch.receiveBuffer { health.receiveBuffer = size }
    }

    /// Applies events to the table, the hosts and the log.
    ///
    /// - Returns: whether any of them can concern a scope.
    mutating func apply(_ events: [NetworkEvent], at now: Duration) -> Bool {
        var hadHints = false
        // Where they are: an event has room for a whole interface.
        for position in events.indices {
            if case .route(let change) = events[position].payload, !index.isConcerned(by: change.destination) { continue }
            guard let hint = table.apply(events[position].payload) else { continue }
            if case .host(let name, let answer) = hint.kind, !take(answer, of: name, at: now) { continue }
            hadHints = true
            log.append(hint)
            var concerned = Doubts()
            concerned.insert(hint, index)
            doubts.formUnion(concerned)
            if hint.mayPrecedeItsChange {
                schedule.noteHint(at: now)
                unsettled.formUnion(concerned)
            }
            switch hint.kind {
            case .overrun:
                health.losses += 1
                if hasSnapshot { health.mode = .resyncing }
                resynced = true
                isResync = true
                backoff.noteLoss(at: now)
            case .resumed:
                resumed = Set(scopes.keys)
                (needsInterfaces, isResync) = (true, true)
            case .address(let address, .removed) where isSource(address.address) || held.contains(address.address):
                // The interface may hold it a second time, for another peer (ip-address(8)); the message does not tell them apart.
                needsInterfaces = true
            default: break
            }
        }
        return hadHints
    }

    private func isSource(_ address: IPAddress) -> Bool {
        scopes.values.contains { $0.level.path?.source(over: address.family) == address }
    }

    /// Has those scopes asked about again that were not answered.
    mutating func doubtUnanswered(_ plan: Plan, _ answers: Answers) {
        guard !answers.failures.isEmpty else { return }
        let answered = Set(answers.paths.map(\.scope))
        for question in plan.questions where !answered.contains(question.scope) { doubts.insert(question.scope) }
    }

    /// Takes over a dump, or that it failed.
    mutating func take(_ answers: Answers, _ plan: Plan) {
        if let fresh = answers.table {
            table = fresh
            if isResync && hasSnapshot { health.resyncs += 1 }
            isResync = false
            if !hasSnapshot { schedule.noteAudit(at: plan.now) }
            hasSnapshot = true
            (needsInterfaces, isDumpFailing) = (false, false)
            backoff.noteDump(at: plan.now)
            if !isBlind { health.mode = isPolled ? .polling : .live }
        }
        if hasSnapshot && !answers.paths.isEmpty {
            hasVerdict = true
            if isBlind {
                isBlind = false
                (health.mode, health.impairment) = (isPolled ? .polling : .live, impairment)
            }
        }
        if answers.failures.isEmpty { isStalled = isStalled && plan.questions.isEmpty } else { isStalled = answers.paths.isEmpty }
        // Judged by links and addresses that are known to be old, answers would mean nothing.
        if !answers.failures.isEmpty && answers.table == nil && (plan.needsInterfaces || plan.isTableDoubtful) {
            needsInterfaces = true
            isDumpFailing = answers.paths.isEmpty
        }
    }

    /// Publishes that nothing can be seen: listeners shall not wait for a first verdict that may never come.
    private mutating func goBlind(_ failure: ReachabilityError) {
        (isBlind, health.mode, health.impairment) = (true, .blind, impairment ?? failure)
        for place in scopes.values.indices { scopes.values[place].goBlind() }
    }

    /// Counts requests that failed, and has everything asked again in a while.
    mutating func noteFailures(_ answers: Answers, _ plan: Plan) {
        // An interrupted dump is no failure: it is made again.
        let failures = answers.failures.filter { $0.code != .interrupted }
        health.failedRequests += failures.count
        if !answers.failures.isEmpty {
            schedule.noteFailure(at: plan.now, isInterruption: failures.isEmpty)
            guard let failure = failures.last else { return }
            health.lastFailure = failure
            if !hasVerdict { goBlind(failure) }
            let answered = Set(answers.paths.map(\.scope))
            for question in plan.questions where question.known == nil && !answered.contains(question.scope) {
                scopes[question.scope]?.goBlind()
            }
        } else if !plan.questions.isEmpty {
            schedule.noteSuccess()
            health.lastFailure = nil
        }
    }
}

extension Int {
    /// Counts on, or stays at the largest number: a source may claim anything.
    fileprivate mutating func addSaturating(_ other: Int) {
        let (sum, overflow) = addingReportingOverflow(Swift.max(0, other))
        self = overflow ? .max : sum
    }
}
