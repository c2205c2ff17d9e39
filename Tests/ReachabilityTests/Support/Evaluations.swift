import Reachability

extension MonitorCore {
    /// Applies the verdicts of an evaluation and finishes it.
    mutating func conclude(_ evaluation: Evaluation) -> Evaluation {
        var evaluation = evaluation
        applyVerdicts(to: &evaluation)
        finish(&evaluation)
        return evaluation
    }
}

extension Evaluation {
    /// Returns the evaluation with a verdict about some scopes, a dump and a failure.
    func answered(
        _ answered: [Scope] = [], _ path: NetworkPath = .online(), table: InterfaceTable? = nil, failure: ReachabilityError? = nil
    ) -> Evaluation {
        var evaluation = self
        if let table { evaluation.noteDump(table.all) }
        for place in evaluation.scopes.indices where answered.contains(evaluation.scopes[place].scope) {
            evaluation.scopes[place].path = path
        }
        if let failure { evaluation.failures.append(failure) }
        return evaluation
    }

    /// The names of the scopes to look up.
    var questions: [Scope] { scopes.map(\.scope) }
}
