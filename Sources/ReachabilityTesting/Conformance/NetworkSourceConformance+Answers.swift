internal import Glibc
internal import Reachability
internal import Synchronization

/// Checks of the answers from any thread and after changes.
extension NetworkSourceConformance {
    /// Asks from many threads before, during and after the run, and within `deliver`.
    func checkQuestions() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        let (source, probe, candidate) = (session.candidate.source, session.probe, session.candidate)
        guard try await session.answersThreads("before it was run") else { return probe.violations }
        probe.recordAnswers(of: candidate)
        session.start()
        if try await session.begins(), try await session.answersThreads("while it ran") {
            let count = probe.batches.count
            source.wake()
            // Another check looks for this batch; a replay does not send it.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: count) }
            for batch in probe.batches { session.expectAnswer(batch.answers, "within `deliver`") }
        }
        try await session.finish()
        _ = try await session.answersThreads("after its end")
        return probe.violations
    }

    /// Makes each change and waits for its event and new answers.
    func checkAnnouncements() async throws -> [Violation] {
        try await session { session in
            let (probe, candidate) = (session.probe, session.candidate)
            probe.recordAnswers(of: candidate)
            for (position, change) in candidate.changes.enumerated() {
                let before = session.answers
                let count = probe.batches.count
                try await change()
                let isSeen: @Sendable () -> Bool = {
                    probe.batches[count...].contains { $0.hasEvents && $0.answers.map { $0 != before } ?? false }
                }
                guard try await session.waits(until: isSeen) else {
                    let isAnnounced = probe.batches[count...].contains(where: \.hasEvents)
                    let finding =
                        isAnnounced
                        ? "the answers were unchanged in every later batch with events"
                        : "no batch with events came within \(session.patience)"
                    probe.report(.announcements, "change \(position): \(finding)")
                    return
                }
                guard session.answers != before else {
                    probe.report(
                        .announcements, "change \(position): the answers were unchanged again after `deliver` had returned")
                    return
                }
            }
        }
    }
}

extension ConformanceSession {
    /// Asks from several threads at once and compares the answers; returns `true` if all calls return.
    fileprivate func answersThreads(_ occasion: String) async throws -> Bool {
        // An event meanwhile explains different answers; in a private network this happens rarely.
        for _ in 0..<3 {
            let given = AnswerSet()
            let count = probe.batches.count
            let hasReturned = try await inThreads(4) { [candidate] in
                for _ in 0..<8 { given.insert(ConformanceAnswers(candidate)) }
            }
            guard hasReturned else {
                probe.report(
                    .questions, "`interfaces()` or `routes(to:)` \(occasion), by several threads, did not return within \(patience)"
                )
                return false
            }
            for answers in given.values { expectAnswer(answers, occasion) }
            guard given.values.count > 1 else { return true }
            guard probe.batches[count...].contains(where: \.hasEvents) else {
                probe.report(.stability, "different answers to the same queries \(occasion), without an event")
                return true
            }
        }
        return true
    }

    fileprivate func expectAnswer(_ answers: ConformanceAnswers?, _ occasion: String) {
        guard let failure = answers?.failure else { return }
        probe.report(.questions, "`interfaces()` or `routes(to:)` \(occasion) threw: \(failure)")
    }
}

/// The different answers that threads received.
private final class AnswerSet: Sendable {
    private let answers = Mutex<Set<ConformanceAnswers>>([])

    var values: Set<ConformanceAnswers> { answers.withLock(\.self) }

    func insert(_ answers: ConformanceAnswers) { self.answers.withLock { _ = $0.insert(answers) } }
}

/// Checks of single lookups and dumps.
extension NetworkSourceConformance {
    /// Asks the queries in different orders, repeatedly, and an empty list.
    func checkResults() async throws -> [Violation] {
        try await session { session in
            let (source, probe, queries) = (session.candidate.source, session.probe, session.candidate.queries)
            for asked in [queries, queries.reversed(), queries + queries, []] {
                let before = asked.flatMap { source.routes(to: [$0]) }
                let results = source.routes(to: asked)
                let after = asked.flatMap { source.routes(to: [$0]) }
                if results.count != asked.count {
                    probe.report(.results, "`routes(to:)` returned \(results.count) results for \(asked.count) queries")
                    return
                }
                // Another check looks for answers that change meanwhile.
                if before == after && results != before {
                    probe.report(.results, "`routes(to:)` answered \(asked.count) queries together and one by one differently")
                    return
                }
            }
        }
    }

    /// Asks with an unknown interface, with the sources that the kernel chose, and with a foreign source.
    func checkLookups() async throws -> [Violation] {
        try await session { session in
            let plain = session.candidate.queries.filter { $0.source == .unspecified && !$0.fibMatch }
            for query in plain {
                session.expectRefusal(of: query)
                let first = session.verdict(query)
                session.expectSource(query, first)
                session.expectSelection(query, first)
            }
        }
    }

    /// Interrupts a dump.
    func checkInterruptions() async throws -> [Violation] {
        try await session { session in
            guard let interrupt = session.candidate.interruptNextDump else { return }
            let (source, probe) = (session.candidate.source, session.probe)
            let result = Mutex<Result<[NetworkInterface], ReachabilityError>?>(nil)
            interrupt()
            let hasReturned = try await session.inThreads(1) {
                let dump = Result { () throws(ReachabilityError) in try source.interfaces() }
                result.withLock { $0 = dump }
            }
            guard hasReturned else {
                probe.report(.interruptions, "`interfaces()` did not return within \(session.patience) of an interrupted dump")
                return
            }
            switch result.withLock(\.self) {
            case .failure(let error)? where error.code == .interrupted: break
            case .failure(let error)?:
                probe.report(.interruptions, "an interrupted dump threw \(error); it must throw `interrupted`")
            default: probe.report(.interruptions, "an interrupted dump was repeated or accepted; it must throw `interrupted`")
            }
        }
    }
}

extension ConformanceSession {
    fileprivate func ask(_ query: RouteQuery) -> Result<RouteVerdict, ReachabilityError>? {
        candidate.source.routes(to: [query]).first
    }

    /// Returns the verdict on a query; `nil` if there is none.
    fileprivate func verdict(_ query: RouteQuery) -> RouteVerdict? {
        if case .success(let verdict)? = ask(query) { verdict } else { nil }
    }

    /// Expects a query that is bound to an unknown interface to be refused: ENODEV, or ENETUNREACH over IPv6.
    fileprivate func expectRefusal(of query: RouteQuery) {
        var query = query
        query.interface = UInt32(Int32.max)
        switch ask(query) {
        case .success(.refused)?: break
        case .success(.route)?: probe.report(.refusals, "a lookup through an interface that does not exist found a route")
        case .failure(let error)? where error.code == .notRecorded: break
        case .failure(let error)?:
            probe.report(.refusals, "a lookup through an interface that does not exist failed: \(error); it must be refused")
        case nil: probe.report(.refusals, "a lookup through an interface that does not exist had no result")
        }
    }

    /// Expects a route to have the source of its query, and IPv4 to refuse a source that no interface holds.
    fileprivate func expectSource(_ query: RouteQuery, _ first: RouteVerdict?) {
        if case .route(let route)? = first, let source = route.source, !source.isUnspecified,
            case .route(let again)? = verdict(query.from(.address(source))), again.source != source
        {
            let found = again.source.map { "\($0)" } ?? "none"
            probe.report(.sources, "a lookup to \(query.destination) from \(source) found a route with the source \(found)")
        }
        // 192.0.2.255, of TEST-NET-1 (RFC 5737).
        let foreign = IPAddress(family: .ipv4, value: 0xc000_02ff)
        guard query.destination.family == .ipv4, let interfaces = try? candidate.source.interfaces(),
            !interfaces.contains(where: { $0.addresses.contains { $0.address == foreign } }),
            case .route? = verdict(query.from(.address(foreign)))
        else { return }
        probe.report(.sources, "a lookup to \(query.destination) from \(foreign), which no interface holds, found a route")
    }

    /// Expects the verdict of connect(2).
    ///
    /// Over IPv4 it is the answer for the source that the first lookup chose, over IPv6 the route of the first lookup, if it
    /// found one. The route has a source in any case.
    fileprivate func expectSelection(_ query: RouteQuery, _ first: RouteVerdict?) {
        let selected: RouteVerdict
        switch ask(query.from(.selected)) {
        case .success(let verdict)?: selected = verdict
        case .failure(let error)? where [.notRecorded, .permissionDenied].contains(error.code): return
        case .failure(let error)?:
            probe.report(.selection, "a lookup with the source `selected` to \(query.destination) failed: \(error)")
            return
        case nil:
            probe.report(.selection, "a lookup with the source `selected` to \(query.destination) had no result")
            return
        }
        let expected: RouteVerdict? =
            if case .route(let route)? = first, query.destination.family == .ipv4, let source = route.source {
                verdict(query.from(.address(source)))
            } else {
                first
            }
        switch (expected, selected) {
        case (.route(let one)?, .route(let other)):
            guard one.interface == other.interface, let source = other.source, !source.isUnspecified else {
                probe.report(.selection, "a lookup with the source `selected` to \(query.destination) found \(other), not \(one)")
                return
            }
        case (.route?, .refused(let errno)):
            probe.report(.selection, "a lookup with the source `selected` to \(query.destination) was refused (errno \(errno))")
        case (.refused?, .route) where query.destination.family == .ipv4:
            probe.report(
                .selection,
                "a lookup with the source `selected` to \(query.destination) found a route although the first lookup was refused")
        default: break
        }
    }
}
