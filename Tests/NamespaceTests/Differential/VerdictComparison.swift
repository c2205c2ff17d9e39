import Glibc
import Reachability
import ReachabilityTesting

/// A comparison of the verdicts of a namespace and its model.
struct VerdictComparison {
    private static let evaluator = PathEvaluator(
        ipv4Representatives: PathOracle.internet.map { $0.compactMap { IPAddress($0) } },
        ipv6Representatives: PathOracle.internet.map { $0.compactMap { IPAddress($0) } })

    /// The compared scopes: the internet for different sockets, destinations of routes, and neighbours.
    static let scopes: [Scope] = {
        let addresses = [
            "198.51.100.7", "2001:db8:ffff::7", "203.0.113.5", "10.0.0.77", "10.1.0.77", "2001:db8:1::77", "fd00:2::77",
        ]
        var scopes = [Scope.internet] + addresses.compactMap { IPAddress($0) }.map { Scope.address($0) }
        var marked = Scope.internet
        marked.mark = 7
        var owned = Scope.internet
        owned.uid = 1000
        var (secure, datagrams) = (Scope.internet, Scope.internet)
        secure.port = 443
        datagrams.transport = .udp
        scopes += [marked, owned, secure, datagrams]
        for name in OperationGenerator.links {
            var bound = Scope.internet
            bound.interface = name
            scopes.append(bound)
        }
        return scopes
    }()

    private let twins: TwinNetworks
    private let table: InterfaceTable
    private let modelTable: InterfaceTable
    private let kernel: SimulatedKernel

    init(_ twins: TwinNetworks) throws {
        self.twins = twins
        table = InterfaceTable(try twins.kernel.interfaces())
        kernel = twins.model.kernel
        modelTable = InterfaceTable(kernel.interfaces)
    }

    /// Returns the difference between the verdicts about a scope; `nil` if they agree.
    func difference(_ scope: Scope) throws -> String? {
        guard let groups = Self.evaluator.lookups(for: scope, table) else { return nil }
        var lookups = LookupBatch()
        lookups.append(groups)
        while true {
            let round = lookups.nextRound()
            if round.isEmpty { break }
            let real = twins.kernel.routes(to: round)
            for (query, answer) in zip(round, real) {
                // The process cannot create another user's socket.
                if case .failure(let error) = answer, query.source == .selected, error.code == .permissionDenied { continue }
                let answer = try answer.get()
                let answers = modelledAnswers(to: query)
                if isForgotten(query, answer) { return nil }
                // The kernel selects the next hop of a multipath route by a hash. Entries are compared below.
                let isForeseen = answers.contains { isSame($0, answer, query) || isSameSocket($0, answer, query) }
                guard query.fibMatch || isForeseen else {
                    return "\(query): the kernel answers \(answer), the model \(answers)"
                }
                // A datagram socket selects for the kernel, for any transport.
                if query.source != .selected, !query.fibMatch, let difference = try differenceOfEntries(query) { return difference }
            }
            lookups.accept(real, table)
        }
        let decisions = try lookups.decisions(about: 0)
        let paths = (
            Self.evaluator.path(for: scope, decisions, table), Self.evaluator.path(for: scope, decisions, modelTable)
        )
        guard Self.text(paths.0) != Self.text(paths.1) else { return nil }
        return "\(scope): the kernel means \(Self.text(paths.0)), the model \(Self.text(paths.1))"
    }

    /// Returns the model's answers; with a selected source those of a datagram socket, like the kernel's.
    private func modelledAnswers(to query: RouteQuery) -> [RouteVerdict] {
        guard query.source == .selected else { return kernel.answers(to: query) }
        var datagram = query
        datagram.transport = .udp
        return kernel.answers(to: datagram).flatMap { chosen -> [RouteVerdict] in
            guard case .route(let route) = chosen, let source = route.source else { return [chosen] }
            return kernel.answers(to: query.from(.address(source))) + (query.interface == nil ? [] : [chosen])
        }
    }

    /// Returns the difference between sockets and `ip` in the namespace, the model's sockets, and the verdicts; `nil` if they
    /// agree.
    func differenceFromSockets() async throws -> String? {
        let checkedScopes = Self.scopes.map { PathOracle.CheckedScope($0) }
        let view = try await KernelView.taken(of: Array(Set(checkedScopes.flatMap(\.targets))), in: twins.near)
        let oracle = PathOracle(view: view)
        for checked in checkedScopes {
            guard let lookups = Self.evaluator.lookups(for: checked.scope, table) else { continue }
            let queries = zip(lookups, Self.evaluator.groups(of: checked.scope)).flatMap { lookup, group in
                group.map { member in
                    var query = lookup.query
                    query.destination = member
                    return query
                }
            }
            if queries.contains(where: mayBeForgotten) { continue }
            for (query, target) in zip(queries, checked.targets) {
                guard let connection = view.connections[target] else { return "no socket was connected for \(target)" }
                let modelled = kernel.answers(to: query.from(.selected)).map(Self.connection)
                guard modelled.contains(connection) else {
                    return "connect \(target): the kernel says \(connection), the model \(modelled)"
                }
            }
            // The source of another user's IPv6 socket is unknown.
            let path = try path(to: checked.scope, lookups)
            let verdicts = oracle.verdicts(checked)
            let isAgreed =
                checked.scope.uid == nil
                ? verdicts.contains(Verdict(path)) : verdicts.map(\.ipv4).contains(Verdict(path).ipv4)
            if !isAgreed { return "\(checked.scope): sockets and `ip` mean \(verdicts), the library \(Verdict(path))\n\(view)" }
        }
        return nil
    }

    /// Returns the result of connect(2) for this answer to a lookup with its source.
    private static func connection(_ verdict: RouteVerdict) -> SocketTarget.Connection {
        switch verdict {
        case .refused(let errno): .refused(errno: errno)
        case .route(let route): .accepted(source: route.source.map { "\($0)" } ?? "0.0.0.0")
        }
    }

    private func path(to scope: Scope, _ lookups: [Lookup]) throws -> NetworkPath {
        var batch = LookupBatch()
        batch.append(lookups)
        while true {
            let round = batch.nextRound()
            if round.isEmpty { break }
            batch.accept(twins.kernel.routes(to: round), table)
        }
        return Self.evaluator.path(for: scope, try batch.decisions(about: 0), table)
    }

    /// The monitor's expected path of the internet; `nil` if the kernel may choose among next hops.
    var expectedPath: String? {
        var lookups = LookupBatch()
        lookups.append(Self.evaluator.lookups(for: .internet, modelTable) ?? [])
        while true {
            let round = lookups.nextRound()
            if round.isEmpty { break }
            let answers = round.map { mayBeForgotten($0) ? [] : kernel.answers(to: $0) }
            guard answers.allSatisfy({ $0.count == 1 }) else { return nil }
            lookups.accept(answers.map { .success($0[0]) }, modelTable)
        }
        guard let decisions = try? lookups.decisions(about: 0) else { return nil }
        return Self.text(Self.evaluator.path(for: .internet, decisions, modelTable))
    }

    /// Returns `true` if the kernel may have lost the answer although it would send.
    ///
    /// After the removal of an IPv6 route through a nexthop object, the object keeps one cached route per processor without its
    /// origin. A lookup that finds it for another route fails with ENETUNREACH (inet6_rtm_getroute(), net/ipv6/route.c, as of
    /// 6.18).
    private func mayBeForgotten(_ query: RouteQuery) -> Bool {
        kernel.routes.contains {
            $0.family == .ipv6 && $0.nexthop != nil && $0.destination.contains(query.destination)
        }
    }

    /// Returns the difference between the table entries for a query; `nil` if they agree.
    private func differenceOfEntries(_ query: RouteQuery) throws -> String? {
        // The cached route of a nexthop object may come from another entry.
        guard !mayBeForgotten(query) else { return nil }
        let query = query.matching
        let (real, modelled) = (try twins.kernel.route(to: query), kernel.route(to: query))
        let texts = [real, modelled].map { answer in
            switch answer {
            case .refused(let errno): "errno \(errno)"
            case .route(let route): "table \(route.table) length \(route.prefixLength ?? -1) metric \(route.metric ?? 0)"
            }
        }
        return texts[0] == texts[1] ? nil : "\(query): the kernel's entry is \(texts[0]), the model's \(texts[1])"
    }

    /// Returns `true` if the answers are equal, or differ only in the table where the kernel may be wrong: routes of all tables
    /// through a nexthop object share its cached route.
    private func isSame(_ modelled: RouteVerdict, _ real: RouteVerdict, _ query: RouteQuery) -> Bool {
        guard case .route(var modelled) = modelled, case .route(let real) = real else { return modelled == real }
        if mayBeForgotten(query) { modelled.table = real.table }
        return modelled == real
    }

    /// Returns `true` if a bound socket uses the same interface and source, the only facts that a socket reveals.
    private func isSameSocket(_ modelled: RouteVerdict, _ real: RouteVerdict, _ query: RouteQuery) -> Bool {
        guard query.source == .selected, query.interface != nil else { return false }
        guard case .route(let modelled) = modelled, case .route(let real) = real else { return false }
        return modelled.interface == real.interface && modelled.source == real.source
    }

    private func isForgotten(_ query: RouteQuery, _ answer: RouteVerdict) -> Bool {
        answer == .refused(errno: ENETUNREACH) && mayBeForgotten(query)
    }

    /// Returns the compared parts of a path: the verdict, the reasons, and the way.
    static func text(_ path: NetworkPath) -> String {
        let families = [path.ipv4, path.ipv6].map { family in
            "\(family.isSatisfied) \(family.reason?.rawValue ?? "-") dev \(family.interface?.name ?? "-") "
                + "via \(family.gateway?.description ?? "-") src \(family.source?.description ?? "-")"
        }
        return "\(path.status) \(path.offlineReason?.rawValue ?? "-"), " + families.joined(separator: ", ")
    }
}
