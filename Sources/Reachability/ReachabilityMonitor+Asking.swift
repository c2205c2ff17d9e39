internal import Synchronization

extension ReachabilityMonitor {
    /// Asks the kernel now whether and how a scope can be reached, and answers without telling listeners.
    ///
    /// Costs one dump of links and addresses and a look-up for each address of the scope: tens of microseconds on most machines.
    /// Works whether or not the monitor runs. A host that is not watched has to be looked up first, which blocks until a name
    /// server answers; of one that is watched, what is known is used. Corresponds to RTM_GETLINK, RTM_GETADDR and RTM_GETROUTE.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel cannot be asked.
    public func path(to scope: Scope) throws(ReachabilityError) -> NetworkPath {
        let host = addresses(ofHostOf: scope)
        let table = InterfaceTable(try source.interfaces())
        var verdict = try verdict(on: MonitorCore.Plan.Question(scope: scope, host: host), table)
        try read(verdict.details, into: &verdict.path)
        return verdict.path
    }

    /// The steps that lead to the verdict about a scope, asked now.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel cannot be asked.
    package func explanation(of scope: Scope) throws(ReachabilityError) -> Explanation {
        let host = addresses(ofHostOf: scope)
        let table = InterfaceTable(try source.interfaces())
        let queries = evaluator.queries(for: scope, host: host, table)
        var lookups: [Explanation.Lookup] = []
        for query in queries ?? [] {
            let verdict = try ask(query)
            let isRoute = if case .route = verdict { true } else { false }
            lookups.append(
                Explanation.Lookup(
                    query: query, verdict: verdict, match: isRoute ? try ask(query.matching) : nil,
                    judgement: evaluator.judge(verdict, to: query.destination, table)))
        }
        let verdicts = lookups.map(\.verdict)
        var path = evaluator.path(for: scope, host: host, queries, verdicts, families: .all, known: nil, table)
        try read(MonitorCore.Details(of: path, queries ?? [], verdicts), into: &path)
        let layers = table.all.filter { !$0.isLoopback }.map { ($0.index, evaluator.layer(of: $0, for: nil)) }
        return Explanation(
            scope: scope, path: path, interfaces: table.all, lookups: lookups, layers: Dictionary(uniqueKeysWithValues: layers))
    }

    /// Answers a plan.
    ///
    /// A request that fails is counted and leaves what was known before.
    func answers(to plan: MonitorCore.Plan) -> MonitorCore.Answers {
        var questions = plan.questions
        var answers = MonitorCore.Answers()
        var table = plan.table
        if !plan.needsInterfaces {
            ask(plan.questions, table, &answers)
            guard plan.isTableDoubtful, answers.differ(from: plan.questions) else { return answers }
            answers = MonitorCore.Answers()
            for index in questions.indices { questions[index].families = .all }
        }
        do {
            table = InterfaceTable(try source.interfaces())
            answers.table = table
        } catch {
            // Judged by links and addresses that are known to be old, the answers would mean nothing.
            answers.failures.append(error)
            return answers
        }
        ask(questions, table, &answers)
        return answers
    }

    private func ask(_ questions: [MonitorCore.Plan.Question], _ table: InterfaceTable, _ answers: inout MonitorCore.Answers) {
        for question in questions {
            do {
                answers.paths.append(try verdict(on: question, table))
            } catch {
                answers.failures.append(error)
            }
        }
    }

    /// Asks what level and epoch depend on; the details of a way that is new are left for later.
    private func verdict(
        on question: MonitorCore.Plan.Question, _ table: InterfaceTable
    ) throws(ReachabilityError) -> MonitorCore.Answers.Verdict {
        let (scope, host, families, known) = (question.scope, question.host, question.families, question.known)
        let queries = evaluator.queries(for: scope, host: host, families: families, table)
        let verdicts = if let queries { try ask(queries) } else { [RouteVerdict]() }
        var path = evaluator.path(for: scope, host: host, queries, verdicts, families: families, known: known, table)
        if let known, question.isDescribed, !path.takesAnotherWay(than: known) {
            path.copyDetails(from: known)
            return MonitorCore.Answers.Verdict(scope, path)
        }
        return MonitorCore.Answers.Verdict(scope, path, details: MonitorCore.Details(of: path, queries ?? [], verdicts))
    }

    /// Reads the details that were left for later.
    ///
    /// A request that fails is counted and leaves a path without them, until the next time.
    func readDetails(_ answers: inout MonitorCore.Answers) {
        for index in answers.paths.indices {
            let details = answers.paths[index].details
            if details.isEmpty { continue }
            do {
                try read(details, into: &answers.paths[index].path)
                answers.paths[index].details = MonitorCore.Details()
            } catch {
                answers.failures.append(error)
            }
        }
    }

    /// Fills in what only the table's entry tells: prefix length and metric.
    private func read(_ details: MonitorCore.Details, into path: inout NetworkPath) throws(ReachabilityError) {
        let queries = details.queries
        for (query, verdict) in zip(queries, try ask(queries)) {
            guard case .route(let match) = verdict else { continue }
            path.describe(query.destination.family, metric: match.metric, prefixLength: match.prefixLength)
        }
    }

    /// The addresses of the host that a scope names: what the monitor knows if it watches the scope, and otherwise looked up now.
    private func addresses(ofHostOf scope: Scope) -> [IPAddress] {
        guard let name = scope.host else { return [] }
        if let known = guarded.withLock({ $0.core.addresses(ofHost: name) }) { return known }
        guard case .addresses(let addresses) = source.addresses(of: name) else { return [] }
        return HostBook.inOrder(addresses)
    }

    /// Asks several questions at once, and those once more that an interface was vanishing for just then.
    private func ask(_ queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict] {
        if queries.isEmpty { return [] }
        var verdicts = try source.routes(to: queries)
        for index in queries.indices.prefix(verdicts.count) where verdicts[index].isRace {
            verdicts[index] = try source.route(to: queries[index])
        }
        return verdicts
    }

    /// Asks, and once more if an interface was vanishing just then.
    private func ask(_ query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        let verdict = try source.route(to: query)
        return verdict.isRace ? try source.route(to: query) : verdict
    }
}
