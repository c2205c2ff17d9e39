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
        return try path(to: scope, host: host, .all, table, known: nil)
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
        let answers = lookups.map { RouteAnswer($0.query.destination, $0.verdict) }
        var path = evaluator.path(for: scope, host: host, queries == nil ? nil : answers, table)
        try describe(&path, queries ?? [], answers)
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
                let path = try path(
                    to: question.scope, host: question.host, question.families, table, known: question.known)
                answers.paths.append(MonitorCore.Answers.Verdict(question.scope, path))
            } catch {
                answers.failures.append(error)
            }
        }
    }

    private func path(
        to scope: Scope, host: [IPAddress], _ families: FamilySet, _ table: InterfaceTable, known: NetworkPath?
    ) throws(ReachabilityError) -> NetworkPath {
        guard var queries = evaluator.queries(for: scope, host: host, families: families, table) else {
            return evaluator.path(for: scope, host: host, nil, families: families, known: known, table)
        }
        let count = queries.count
        queries.appendMatching(whereLost: known)
        var answers = try ask(queries)
        var matches: [RouteAnswer] = []
        if count < answers.count {
            matches.reserveCapacity(2)
            while count < answers.count { matches.append(answers.removeLast()) }
        }
        var path = evaluator.path(for: scope, host: host, answers, families: families, known: known, table)
        if let known, !path.takesAnotherWay(than: known) {
            path.copyDetails(from: known)
        } else {
            try describe(&path, queries, answers, matches)
        }
        return path
    }

    /// The addresses of the host that a scope names: what the monitor knows if it watches the scope, and otherwise looked up now.
    private func addresses(ofHostOf scope: Scope) -> [IPAddress] {
        guard let name = scope.host else { return [] }
        if let known = guarded.withLock({ $0.core.addresses(ofHost: name) }) { return known }
        guard case .addresses(let addresses) = source.addresses(of: name) else { return [] }
        return HostBook.inOrder(addresses)
    }

    /// Fills in what only the table's entry tells: prefix length and metric.
    ///
    /// - Parameter matches: entries that were asked for already.
    private func describe(
        _ path: inout NetworkPath, _ queries: [RouteQuery], _ answers: [RouteAnswer], _ matches: [RouteAnswer] = []
    ) throws(ReachabilityError) {
        for family in IPAddress.Family.allCases where path[family].isSatisfied {
            let remote = answers.firstIndex { $0.destination.family == family && !$0.verdict.isLocal }
            guard let remote else { continue }
            var verdict = matches.first { $0.destination == answers[remote].destination }?.verdict
            if verdict == nil { verdict = try ask(queries[remote].matching) }
            guard case .route(let match) = verdict else { continue }
            path[family].prefixLength = match.prefixLength
            path[family].metric = match.metric
        }
    }

    /// Asks several questions at once.
    private func ask(_ queries: [RouteQuery]) throws(ReachabilityError) -> [RouteAnswer] {
        let verdicts = try source.routes(to: queries)
        var answers: [RouteAnswer] = []
        answers.reserveCapacity(queries.count)
        for index in verdicts.indices.prefix(queries.count) {
            answers.append(RouteAnswer(queries[index].destination, verdicts[index]))
            if verdicts[index].isRace { answers[index].verdict = try source.route(to: queries[index]) }
        }
        return answers
    }

    /// Asks, and once more if an interface was vanishing just then.
    private func ask(_ query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        let verdict = try source.route(to: query)
        return verdict.isRace ? try source.route(to: query) : verdict
    }
}

extension [RouteQuery] {
    /// The questions for the table's entries of families that had no way: if one has come back it is described by them, and they
    /// cost less now than on their own.
    fileprivate mutating func appendMatching(whereLost known: NetworkPath?) {
        let count = count
        for family in IPAddress.Family.allCases where known?[family].isSatisfied != true {
            // Of a single address it would be the second question each time, for the sake of the last time.
            let isOfFamily = { (query: RouteQuery) in query.destination.family == family }
            guard let first = firstIndex(where: isOfFamily), let last = self[..<count].lastIndex(where: isOfFamily), first < last
            else { continue }
            append(self[first].matching)
        }
    }
}

extension RouteQuery {
    /// The same question, to be answered with the table's entry.
    fileprivate var matching: RouteQuery {
        var query = self
        query.wantsMatch = true
        return query
    }
}
