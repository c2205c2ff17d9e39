internal import Reachability

/// What the caller says about an error, asked in the order in which a policy promises to ask.
struct Classification: Sendable {
    var giveUp: [@Sendable (any Error) -> Bool] = []
    var retry: [@Sendable (any Error) -> Bool] = []
    var classifiers: [@Sendable (any Error) -> FailureClass?] = []
    var systemErrors: [@Sendable (any Error) -> Int32?] = []

    /// What is known about an error without knowing the network.
    func report(_ error: any Error) -> FailureReport {
        if giveUp.contains(where: { $0(error) }) { return .classified(.permanent) }
        // A time that the policy itself sets is no error of the operation's, which such a list is about.
        let isOwn = error as? RetryError == .attemptTimedOut
        if !isOwn, !retry.isEmpty, !retry.contains(where: { $0(error) }) { return .classified(.permanent) }
        for classifier in classifiers {
            if let opinion = classifier(error) { return .classified(opinion) }
        }
        for number in systemErrors {
            if let number = number(error) { return FailureReport(systemError: number) }
        }
        if let error = error as? ReachabilityError { return FailureReport(systemError: error.errno) }
        return .unclassified
    }
}
