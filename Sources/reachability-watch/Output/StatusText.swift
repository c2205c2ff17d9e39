import Reachability

/// Returns a line of `status`, without its end.
func statusLine(_ path: NetworkPath, of scope: Scope, _ format: OutputFormat, _ style: TextStyle) -> String {
    switch format {
    case .json: JSONValue.status(path, of: scope).description
    case .text: "\(style.strong(escapedForTerminal(scope.description))): \(style.verdict(path))"
    }
}

extension TextStyle {
    /// A verdict in words: `satisfied via eth0, …` or `unsatisfied: no carrier`.
    func verdict(_ path: NetworkPath) -> String {
        let summary = escapedForTerminal(path.summary)
        return switch path.status {
        case .satisfied: "\(colored("satisfied", path.status)) \(summary)"
        case .unsatisfied: "\(colored("unsatisfied", path.status)): \(summary)"
        case .unknown: colored("unknown", path.status)
        }
    }
}
