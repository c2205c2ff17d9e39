@testable import ReachableRetry

/// The invariants of gates: the number of canaries, and the liveness of all jobs.
extension CoreRun {
    var hasCanaries: Bool { core.release.rules.hasCanaries }

    /// The time of the next timer: the model's if it can predict it, else the core's.
    var nextTime: Int? {
        if isExact { return model.nextTime == .max ? nil : model.nextTime }
        let next = core.nextTime()
        return next.isNever ? nil : Int((next.nanoseconds + 999_999) / 1_000_000)
    }

    /// Makes all gates of a scope probe again; earlier probes do not count.
    mutating func noteEdge(_ scope: Int) {
        model.probing.formUnion(model.gates.filter { $0.hasPrefix("\(scope) ") })
        for index in model.jobs.indices where model.jobs[index].scope == scope { model.jobs[index].isProbe = false }
    }

    /// Adds the job's gate; a gate that is created soon after an edge probes, too.
    mutating func noteGate(of job: CoreModel.Job) {
        guard model.gates.insert(model.gate(job)).inserted, let edge = model.conditions[job.scope].edgeAt else { return }
        if model.now - edge <= 30_000 { model.probing.insert(model.gate(job)) }
    }

    mutating func notePassage(_ index: Int) {
        let job = model.jobs[index]
        if job.armedScopeEpoch == model.conditions[job.scope].epoch { model.probing.remove(model.gate(job)) }
    }

    /// Takes the gate's delay after a network failure on a satisfied path.
    mutating func delayedByGate(_ index: Int, _ outcome: FailureOutcome) throws(Fault) {
        let job = model.jobs[index]
        try check(outcome == .settled, "\(outcome), though the gate decides", index)
        let soft = core[keys[index]].map { Int($0.history.soft.nanoseconds / 1_000_000) } ?? 0
        let isRetryNow = model.retryNows(job) != job.armedRetryNows
        try check(isRetryNow || (soft >= model.now && soft <= model.now + 5000), "the gate delays it until \(soft)", index)
        model.jobs[index].soft = isRetryNow ? .min : soft
        if job.armedScopeEpoch == model.conditions[job.scope].epoch { model.probing.insert(model.gate(job)) }
    }

    /// Checks that a job may start: while its gate probes, only interactive jobs may run beside it.
    mutating func checkGate(_ index: Int) throws(Fault) {
        let job = model.jobs[index]
        model.jobs[index].isProbe = false
        let running = model.jobs.count { $0.state == .running }
        try check(running < core.maxConcurrent, "\(running) attempts run already", index)
        let scope = model.conditions[job.scope]
        guard hasCanaries, job.variant.isGated, scope.isLive else { return }
        // A gate that did not exist at the edge does not probe.
        guard model.probing.contains(model.gate(job)) else { return }
        model.jobs[index].isProbe = true
        let beside = model.jobs.indices.filter { other in
            other != index && model.jobs[other].state == .running && model.jobs[other].isProbe
                && model.gate(model.jobs[other]) == model.gate(job) && model.jobs[other].startedAt + 5000 > model.now
        }
        let interactive = beside.count { model.jobs[$0].priority == .interactive }
        if job.priority == .interactive {
            try check(interactive < 3, "\(interactive) interactive jobs probe already", index)
        } else {
            try check(beside.count - interactive < 1, "another job probes already", index)
        }
    }

    /// Checks that all jobs end if all conditions are satisfied and every attempt succeeds.
    mutating func finishAllJobs() throws(Fault) {
        guard !model.isShutDown else { return }
        for index in model.conditions.indices {
            try play(.know(condition: index))
            try play(.level(condition: index, isSatisfied: true))
            try play(.calm(condition: index))
        }
        for index in model.jobs.indices { try play(.pause(job: index, isPaused: false)) }
        let end = model.now + 300_000
        while model.jobs.contains(where: { $0.state != .ended }) {
            for index in model.jobs.indices where model.jobs[index].state == .failed { try play(.park(job: 0, delay: 0)) }
            if model.jobs.contains(where: { $0.state == .running }) {
                try play(.succeed(job: 0))
            } else if model.jobs.contains(where: { $0.state != .ended }) {
                guard let next = nextTime else { throw Fault(description: "no timer is set, but jobs wait: \(model.jobs)") }
                try pass(to: max(model.now, next))
            }
            try settle()
            try check(model.now < end, "the jobs take too long")
        }
    }
}
