internal import Reachability

/// What a source says when it is asked about everything.
struct ConformanceAnswers: Hashable, Sendable {
    var interfaces: Result<[NetworkInterface], ReachabilityError>
    var routes: [Result<RouteVerdict, ReachabilityError>]

    init(_ candidate: NetworkSourceConformance.Candidate) {
        let source = candidate.source
        interfaces = Result { () throws(ReachabilityError) in try source.interfaces() }
        routes = candidate.queries.map { query in Result { () throws(ReachabilityError) in try source.route(to: query) } }
    }

    /// Why the source could not be asked, if so; that nobody asked while a recording was made is an answer.
    var failure: ReachabilityError? {
        let failures = [interfaces.failure] + routes.map(\.failure)
        return failures.compactMap(\.self).first { $0.code != .notRecorded }
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
