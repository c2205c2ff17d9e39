import Reachability

extension MonitorCore {
    /// Both phases of what follows from answers, with nothing in between.
    mutating func conclude(_ plan: Plan, _ answers: Answers) -> Outcome { conclude(plan, answers, settle(plan, answers)) }
}
