extension MonitorCore {
    /// Tells the validation how the internet is, once it has been evaluated.
    mutating func noteLevelForValidation(_ plan: Plan) {
        guard validation != nil, let level = scopes[.internet]?.level, level.path != nil else { return }
        validation?.observe(level.state, at: plan.now)
    }

    /// Publishes what was found in this batch about the path as it was published before.
    ///
    /// Before the evaluations of the batch, so that these say only what they have changed themselves.
    mutating func tellValidation(_ plan: Plan, _ outcome: inout Outcome) {
        guard let verdict = validation?.verdict, let place = scopes.index(forKey: .internet) else { return }
        for publication in scopes.values[place].revalidate(verdict, Cause(.validation, "\(verdict)")) {
            outcome.tell(.internet, publication, plan.now, plan.wallTime)
        }
    }

    /// Says what is to be done with the validator, and what those are told who have asked.
    mutating func concludeValidation(_ outcome: inout Outcome) {
        guard validation != nil else { return }
        outcome.answer = validation?.takeAnswer()
        guard let step = validation?.takeStep() else { return }
        outcome.cancelsValidation = step.cancels
        if let number = step.start, let path = path(.internet) { outcome.validation = Outcome.Start(number: number, path: path) }
    }
}
