internal import Glibc
internal import Reachability
internal import Synchronization

/// What lookups and dumps return.
extension NetworkSourceConformance {
    /// Asks the queries in different orders, repeatedly, and none of them.
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
                // Answers that change meanwhile are another matter.
                if before == after && results != before {
                    probe.report(.results, "`routes(to:)` answered \(asked.count) queries differently than one by one")
                    return
                }
            }
        }
    }

    /// Asks with an interface that there is not, with the sources that the kernel chose, and with one that no interface holds.
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
                probe.report(.interruptions, "an interrupted dump threw \(error); it has to throw `interrupted`")
            default: probe.report(.interruptions, "an interrupted dump was made again, or taken; it has to throw `interrupted`")
            }
        }
    }
}

extension ConformanceSession {
    fileprivate func ask(_ query: RouteQuery) -> Result<RouteVerdict, ReachabilityError>? {
        candidate.source.routes(to: [query]).first
    }

    /// The verdict on a query; `nil` if there is none.
    fileprivate func verdict(_ query: RouteQuery) -> RouteVerdict? {
        if case .success(let verdict)? = ask(query) { verdict } else { nil }
    }

    /// Expects a query that is bound to no existing interface to be refused: ENODEV, or ENETUNREACH over IPv6.
    fileprivate func expectRefusal(of query: RouteQuery) {
        var query = query
        query.interface = UInt32(Int32.max)
        switch ask(query) {
        case .success(.refused)?: break
        case .success(.route)?: probe.report(.refusals, "a lookup through an interface that does not exist found a route")
        case .failure(let error)? where error.code == .notRecorded: break
        case .failure(let error)?:
            probe.report(.refusals, "a lookup through an interface that does not exist failed: \(error); it has to be refused")
        case nil: probe.report(.refusals, "a lookup through an interface that does not exist had no result")
        }
    }

    /// Expects a route to have the source that its query names.
    fileprivate func expectSource(_ query: RouteQuery, _ first: RouteVerdict?) {
        if case .route(let route)? = first, let source = route.source, !source.isUnspecified,
            case .route(let again)? = verdict(query.from(.address(source))), again.source != source
        {
            let told = again.source.map { "\($0)" } ?? "none"
            probe.report(.sources, "a lookup to \(query.destination) from \(source) found a route with the source \(told)")
        }
        // 192.0.2.255, of TEST-NET-1 (RFC 5737).
        let foreign = IPAddress(family: .ipv4, value: 0xc000_02ff)
        guard query.destination.family == .ipv4, let interfaces = try? candidate.source.interfaces(),
            !interfaces.contains(where: { $0.addresses.contains { $0.address == foreign } }),
            case .route? = verdict(query.from(.address(foreign)))
        else { return }
        probe.report(.sources, "a lookup to \(query.destination) from \(foreign), which no interface holds, found a route")
    }

    /// Expects what connect(2) would be told: over IPv4 the answer with the source that the first lookup chose, over IPv6 the first
    /// lookup's if that found a route, and in any case a source that an interface holds.
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
                .selection, "a lookup with the source `selected` to \(query.destination) found a route where there is none")
        default: break
        }
    }
}
