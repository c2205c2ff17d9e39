extension MonitorCore.Outcome {
    /// What is to be done about validations.
    package struct Validation: Sendable {
        /// What those are told who have asked for one.
        package var answer: ValidationState.Answer?
        package var step: ValidationState.Step?
        /// The path that is to be validated.
        package var path: NetworkPath
    }
}

/// Without a validator, each of these is a comparison and no more.
extension MonitorCore {
    /// Tells the validation how the internet is, once it has been evaluated.
    mutating func noteLevelForValidation(_ plan: Plan) {
        guard isValidating, let place = scopes.index(forKey: .internet), scopes.values[place].level.path != nil else { return }
        validation?.observe(scopes.values[place].level.state, at: plan.now)
    }

    /// Publishes what was found in this batch about the path as it was published before.
    ///
    /// Before the evaluations of the batch, so that these say only what they have changed themselves.
    mutating func tellValidation(_ plan: Plan, _ outcome: inout Outcome) {
        guard isValidating, let verdict = validation?.verdict, let place = scopes.index(forKey: .internet) else { return }
        for publication in scopes.values[place].revalidate(verdict, Cause(.validation, "\(verdict)")) {
            outcome.tell(.internet, publication, plan.now, plan.wallTime)
        }
    }

    /// Says what is to be done with the validator, and what those are told who have asked.
    mutating func concludeValidation(_ plan: Plan, _ outcome: inout Outcome) {
        guard isValidating else { return }
        let (answer, step) = (validation?.takeAnswer(), validation?.takeStep(at: plan.now))
        guard answer != nil || step != nil, let path = path(.internet) else { return }
        outcome.validation = Outcome.Validation(answer: answer, step: step, path: path)
    }
}
