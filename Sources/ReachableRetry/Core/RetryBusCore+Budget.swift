/// What a job's budget is told and asked.
///
/// A budget may belong to several buses, so it is the one thing here that others change, too: behind a lock of its own, under which
/// nothing is called.
extension RetryBusCore {
    /// Counts a failure, unless it says nothing of a server.
    ///
    /// Nobody was reached, or the fault lies with the job; and whom the job's own deadline cut short had no time to answer.
    func noteFailure(_ job: JobState, _ fault: AttemptFailure.Fault, _ report: FailureReport) {
        guard let budget = job.rules.budget, job.interruption != .deadline, report.mayRetry else { return }
        switch fault {
        case .network, .local, .request: break
        case .server, .overload, .unknown: budget.noteFailure(isFirst: job.history.refund < 0)
        }
    }

    /// Whether there may be another attempt, which is then paid for.
    ///
    /// To be asked last: a job that ends anyway pays for none.
    mutating func paysForRetry(_ index: JobIndex, _ report: FailureReport, _ fault: AttemptFailure.Fault) -> Bool {
        // Also if it counts as an attempt: a server that was not reached has nothing to be spared.
        guard fault != .network, fault != .local, let job = jobs[Int(index)], let budget = job.rules.budget else { return true }
        let isTimeout = job.interruption == .timeout || report.evidence == .timedOut
        guard let refund = budget.takeRetry(afterTimeout: isTimeout) else { return false }
        jobs[Int(index)]?.history.refund = refund
        return true
    }

    /// Counts a success, and gives back what its attempt cost.
    func noteSuccess(_ job: JobState) {
        job.rules.budget?.noteSuccess(refund: job.history.refund < 0 ? nil : job.history.refund)
    }
}
