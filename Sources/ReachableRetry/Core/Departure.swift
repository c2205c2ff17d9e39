/// What let an attempt start, and what that was worth.
package struct Departure: Hashable, Sendable {
    package var trigger: RetryEvent.Trigger
    /// How much later it would have started if nothing had voided its soft delay.
    package var saved: Duration?
    /// How long ago the edge of the scope was that the job waited for.
    package var sinceEdge: Duration?
}

extension RetryBusCore {
    /// What lets a job start that is about to, before it is armed anew.
    func departure(of job: JobState, at now: BusTime) -> Departure {
        let planned = job.history.voided == .past ? nil : max(job.history.voided, job.history.hard)
        let saved = planned.flatMap { $0 > now ? $0 - now : nil }
        let scopesEdge = job.heedsScope ? edge(of: job.scope) : .past
        let lastEdge = job.conditions.reduce(scopesEdge) { max($0, edge(of: $1)) }
        let isNew = job.history.started == 0
        let hasSeenEdge = epoch(of: job) != job.history.armedEpoch
        let hasWaited = isNew ? job.toldOf >= 0 && lastEdge >= job.submitted : hasSeenEdge
        // Otherwise a server's order had the last word.
        if hasWaited, job.history.hard <= lastEdge {
            let isScopes = lastEdge == scopesEdge
            return Departure(
                trigger: isScopes ? .reconnect : .condition, saved: saved,
                sinceEdge: isScopes && !job.history.sawEdge && lastEdge != .past ? now - lastEdge : nil)
        }
        if isNew { return Departure(trigger: .first) }
        let isNudged = saved != nil && !hasSeenEdge && nudges(of: job) != job.history.armedNudges
        return Departure(trigger: isNudged ? .retryNow : .timer, saved: saved)
    }

    private func edge(of condition: ConditionIndex) -> BusTime { conditions[Int(condition)]?.edgeAt ?? .past }
}
