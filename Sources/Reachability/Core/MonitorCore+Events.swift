extension MonitorCore {
    /// Takes over what the batch says about its source.
    mutating func count(_ batch: NetworkEventBatch) {
        health.forged.addSaturating(batch.forged)
        health.malformed.addSaturating(batch.malformed)
        health.drops.addSaturating(batch.drops)
        health.reopens.addSaturating(batch.reopens)
        isPolled = batch.isPolled
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
            case .address(let address, .removed) where isSource(address.address):
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
            health.mode = isPolled ? .polling : .live
        }
        if answers.failures.isEmpty { isStalled = isStalled && plan.questions.isEmpty } else { isStalled = answers.paths.isEmpty }
        // Judged by links and addresses that are known to be old, answers would mean nothing.
        if !answers.failures.isEmpty && answers.table == nil && (plan.needsInterfaces || plan.isTableDoubtful) {
            needsInterfaces = true
            isDumpFailing = answers.paths.isEmpty
        }
    }

    /// Counts requests that failed, and has everything asked again in a while.
    mutating func noteFailures(_ answers: Answers, _ plan: Plan) {
        health.failedRequests += answers.failures.count
        if let failure = answers.failures.last {
            schedule.noteFailure(at: plan.now)
            health.lastFailure = failure
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
