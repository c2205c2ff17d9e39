internal import Reachability

/// The functions of a policy that judge errors, asked in the order that a policy promises.
struct Classification: Sendable {
    var giveUp: [@Sendable (any Error) -> Bool] = []
    var retry: [@Sendable (any Error) -> Bool] = []
    var classifiers: [@Sendable (any Error) -> FailureReport?] = []
    var errnoReaders: [@Sendable (any Error) -> Int32?] = []

    /// The rules for an attempt's failure, which may have come with a classifier of its own.
    func adding(_ classified: ClassifiedError?) -> Classification {
        guard let classified else { return self }
        var classification = self
        classification.classifiers.append(classified.classify)
        return classification
    }

    /// The report about an attempt that failed, before the state of the network is looked at.
    ///
    /// - Parameter cut: The bus's own reason, if it cut the attempt. It does not overrule an answer that came just before.
    func report(_ error: any Error, cut: RetryError?) -> FailureReport {
        guard let cut else { return report(error) }
        // The cancellation is the bus's own.
        guard !(error is CancellationError) else { return report(cut) }
        let own = report(error)
        return own.evidence.isAnswer ? own : report(cut)
    }

    /// The report about one error.
    func report(_ error: any Error) -> FailureReport {
        // First of all: a predicate accepts an error whatever a classifier says of it.
        let isRefused = giveUp.contains { $0(error) } || !isListed(error)
        var report = opinion(error) ?? systemReport(error) ?? FailureReport(.unclassified)
        if isRefused { report.mayRetry = false }
        return report
    }

    /// The limits of the policy itself are no errors of the operation's, which such a list is about.
    private func isListed(_ error: any Error) -> Bool {
        retry.isEmpty || (error as? RetryError)?.isCut == true || retry.contains { $0(error) }
    }

    private func opinion(_ error: any Error) -> FailureReport? {
        for classifier in classifiers {
            if let report = classifier(error) { return report }
        }
        return nil
    }

    private func systemReport(_ error: any Error) -> FailureReport? {
        for number in errnoReaders {
            if let number = number(error) { return FailureReport(systemError: number) }
        }
        return (error as? ReachabilityError).map { FailureReport(systemError: $0.errno) }
    }
}

/// An operation's error with a classifier that the policy's own classifiers precede.
///
/// The bus unwraps it: policies, events and callers get the bare error.
package struct ClassifiedError: Error {
    let error: any Error
    let classify: @Sendable (any Error) -> FailureReport?

    /// Creates an error from the bare one.
    ///
    /// - Parameter classify: Classifies the bare error, or the `RetryError` of an attempt that the bus cut; `nil` leaves it to the
    ///   bus.
    package init(_ error: any Error, classify: @escaping @Sendable (any Error) -> FailureReport?) {
        (self.error, self.classify) = (error, classify)
    }
}
