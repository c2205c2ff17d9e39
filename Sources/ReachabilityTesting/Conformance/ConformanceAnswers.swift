internal import Reachability

/// What a source says when it is asked about everything.
struct ConformanceAnswers: Hashable, Sendable {
    var interfaces: Result<[NetworkInterface], ReachabilityError>
    var routes: [Result<RouteVerdict, ReachabilityError>]

    init(_ candidate: NetworkSourceConformance.Candidate) {
        let source = candidate.source
        interfaces = Result { () throws(ReachabilityError) in try source.interfaces() }
        routes = source.routes(to: candidate.queries)
    }

    /// The reason why the source could not be asked.
    var failure: ReachabilityError? {
        let failures = [interfaces.unexpectedFailure] + routes.map(\.unexpectedFailure)
        return failures.compactMap(\.self).first
    }
}

extension Result where Failure == ReachabilityError {
    /// The failure, unless a recording does not hold the answer: that is an answer, too.
    var unexpectedFailure: ReachabilityError? {
        if case .failure(let failure) = self, failure.code != .notRecorded { failure } else { nil }
    }
}
