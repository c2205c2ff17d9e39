import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// The lookups about one destination, and which of them decides.
@Suite struct LookupTests {
    private static let ipv4 = RouteQuery(to: ip("198.41.0.4"), interface: 2, mark: 7, port: 443)
    private static let ipv6 = RouteQuery(to: ip("2001:503:ba3e::2:30"), interface: 2, mark: 7, port: 443)
    private static let held4 = RouteQuery.Source.address(ip("192.0.2.10"))
    private static let held6 = RouteQuery.Source.address(ip("2001:db8::10"))
    private static let route6 = RouteVerdict.through(via: "fe80::1", from: "2001:db8::10")

    /// The sources that a destination is looked up with, and the verdict.
    struct Run: Equatable {
        var sources: [RouteQuery.Source]
        var verdict: RouteVerdict?
        /// The source of the query that decided.
        var decisive: RouteQuery.Source
        var error: ReachabilityError?
        /// The sources that were also looked up for a datagram.
        var compared: [RouteQuery.Source] = []
    }

    /// Answers lookups in order, and fails on any further one.
    private func run(
        _ query: RouteQuery, _ answers: [Result<RouteVerdict, ReachabilityError>],
        _ interfaces: [NetworkInterface] = [.loopback, .cable]
    ) -> Run {
        let table = InterfaceTable(interfaces)
        var lookup = Lookup(query)
        var run = Run(sources: [], verdict: nil, decisive: .unspecified)
        for answer in answers {
            if lookup.isDone { break }
            var asked = lookup.query.from(.unspecified)
            if asked.transport != query.transport { run.compared.append(lookup.query.source) }
            asked.transport = query.transport
            #expect(asked == query, "only the source changes, or the transport")
            run.sources.append(lookup.query.source)
            do throws(ReachabilityError) { try lookup.accept(answer, table) } catch { run.error = error }
            if run.error != nil { return run }
        }
        run.decisive = lookup.query.source
        if lookup.isDone { run.verdict = lookup.verdict }
        return run
    }

    private func run(
        _ query: RouteQuery, _ verdicts: RouteVerdict..., over interfaces: [NetworkInterface] = [.loopback, .cable]
    ) -> Run {
        run(query, verdicts.map(Result.success), interfaces)
    }

    // MARK: - IPv4

    @Test func ipv4IsLookedUpAgainWithTheChosenSource() {
        let result = run(Self.ipv4, .through(), .through())
        #expect(result == Run(sources: [.unspecified, Self.held4], verdict: .through(), decisive: Self.held4))
    }

    @Test func secondLookupDecidesTheWay() {
        let elsewhere = RouteVerdict.through(3, via: "203.0.113.1")
        #expect(run(Self.ipv4, .through(), elsewhere).verdict == elsewhere)
    }

    @Test(arguments: [EHOSTUNREACH, EACCES]) func secondLookupMayRefuse(errno: Int32) {
        let result = run(Self.ipv4, .through(), .refused(errno: errno))
        #expect(result.verdict == .refused(errno: errno) && result.sources == [.unspecified, Self.held4])
    }

    @Test(arguments: [EHOSTUNREACH, EACCES, EINVAL, ENETUNREACH]) func refusalWithoutSourceIsFinal(errno: Int32) {
        let result = run(Self.ipv4, .refused(errno: errno), .through())
        #expect(result == Run(sources: [.unspecified], verdict: .refused(errno: errno), decisive: .unspecified))
    }

    @Test(arguments: [EINVAL, ENETUNREACH, ENODEV, ENETDOWN])
    func aSourceThatMayBeGoneIsChosenAgainOnce(errno: Int32) {
        let recovered = run(
            Self.ipv4, .through(), .refused(errno: errno), .through(from: "192.0.2.11"), .through(from: "192.0.2.11"))
        let next = RouteQuery.Source.address(ip("192.0.2.11"))
        #expect(recovered.sources == [.unspecified, Self.held4, .unspecified, next])
        #expect(recovered.verdict == .through(from: "192.0.2.11") && recovered.decisive == next)
        let lasting = run(Self.ipv4, .through(), .refused(errno: errno), .through(), .refused(errno: errno), .through())
        #expect(lasting.sources == [.unspecified, Self.held4, .unspecified, Self.held4])
        #expect(lasting.verdict == .refused(errno: errno) && lasting.decisive == Self.held4)
    }

    @Test(arguments: [ENODEV, ENETDOWN]) func vanishedInterfaceRepeatsTheLookup(errno: Int32) {
        #expect(run(Self.ipv4, .refused(errno: errno), .through(), .through()).sources == [.unspecified, .unspecified, Self.held4])
        let gone = run(Self.ipv4, .refused(errno: errno), .refused(errno: errno), .through())
        #expect(gone.verdict == .refused(errno: errno) && gone.sources.count == 2)
        // One repetition in all, so that lookups end.
        let both = run(Self.ipv4, .refused(errno: errno), .through(), .refused(errno: EINVAL), .through())
        #expect(both.verdict == .refused(errno: EINVAL) && both.sources.count == 3)
    }

    @Test(arguments: [nil, "0.0.0.0"]) func missingSourceNeedsNoConfirmation(source: String?) {
        let answer = RouteVerdict.through(from: source)
        #expect(run(Self.ipv4, answer, .refused(errno: EACCES)).verdict == answer)
    }

    // MARK: - An expected source

    /// Runs lookups against a table of answers until all are decided.
    private func decide(
        _ queries: [RouteQuery], expecting source: IPAddress?, _ kernel: [RouteQuery: Result<RouteVerdict, ReachabilityError>]
    ) -> (decision: Result<[RouteVerdict], ReachabilityError>, decisive: [RouteQuery], rounds: [Int]) {
        let table = InterfaceTable([.loopback, .cable])
        var batch = LookupBatch(expecting: source)
        batch.append(queries.map { Lookup($0) })
        var rounds: [Int] = []
        while true {
            let round = batch.nextRound()
            if round.isEmpty { break }
            rounds.append(round.count)
            batch.accept(round.map { kernel[$0] ?? .success(.refused(errno: ENETUNREACH)) }, table)
        }
        do throws(ReachabilityError) {
            let decisions = try batch.decisions(about: 0)
            return (.success(decisions.map(\.verdict)), decisions.map(\.query), rounds)
        } catch {
            return (.failure(error), [], rounds)
        }
    }

    @Test func expectedSourceIsConfirmedInTheFirstRound() {
        let queries = [Self.ipv4, Self.ipv6]
        let kernel = [
            Self.ipv4: Result<RouteVerdict, ReachabilityError>.success(.through()),
            Self.ipv4.from(Self.held4): .success(.refused(errno: EACCES)), Self.ipv6: .success(Self.route6),
        ]
        let right = decide(queries, expecting: ip("192.0.2.10"), kernel)
        #expect(right.rounds == [3] && right.decision == .success([.refused(errno: EACCES), Self.route6]))
        #expect(right.decisive == [Self.ipv4.from(Self.held4), Self.ipv6])
        let wrong = decide(queries, expecting: ip("192.0.2.77"), kernel)
        #expect(wrong.rounds == [3, 1] && wrong.decision == right.decision && wrong.decisive == right.decisive)
    }

    @Test(arguments: 1...20) func expectedSourceChangesNoDecision(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let sources = ["192.0.2.10", "192.0.2.11", "192.0.2.12"].map { ip($0) }
        let error = ReachabilityError(.requestFailed, operation: "RTM_GETROUTE")
        let denied = ReachabilityError(.permissionDenied, operation: "bind")
        var outcomes: Set<String> = []
        for _ in 0..<200 {
            var kernel: [RouteQuery: Result<RouteVerdict, ReachabilityError>] = [:]
            for source in [RouteQuery.Source.unspecified] + sources.map(RouteQuery.Source.address) {
                kernel[Self.ipv4.from(source)] =
                    switch Int.random(in: 0..<8, using: &random) {
                    case 0: .success(.refused(errno: [ENETUNREACH, EHOSTUNREACH, EINVAL, ENODEV].randomElement(using: &random)!))
                    case 1: .failure(error)
                    case 2: .failure(denied)
                    default: .success(.through(from: sources.randomElement(using: &random)!.description))
                    }
            }
            let plain = decide([Self.ipv4], expecting: nil, kernel)
            let expecting = decide([Self.ipv4], expecting: sources[0], kernel)
            #expect(expecting.decision == plain.decision && expecting.decisive == plain.decisive, "seed \(seed): \(kernel)")
            #expect(expecting.rounds.count <= plain.rounds.count)
            outcomes.insert("\(plain.rounds.count) \(expecting.rounds.count) \((try? plain.decision.get()) == nil)")
        }
        // One round saved, none saved, and errors after the first and the second lookup.
        #expect(outcomes.isSuperset(of: ["2 1 false", "2 2 false", "2 1 true", "1 1 true"]), "\(outcomes)")
    }

    // MARK: - IPv6

    @Test func anIPv6RouteNeedsNoSecondLookup() {
        let result = run(Self.ipv6, Self.route6, .refused(errno: EACCES))
        #expect(result == Run(sources: [.unspecified], verdict: Self.route6, decisive: .unspecified))
    }

    @Test(arguments: [ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL]) func aRefusedIPv6LookupLetsASocketChoose(errno: Int32) {
        let result = run(Self.ipv6, .refused(errno: errno), Self.route6)
        #expect(result == Run(sources: [.unspecified, .selected], verdict: Self.route6, decisive: .selected))
        var datagram = Self.ipv6
        datagram.transport = .udp
        let refused = run(datagram, .refused(errno: errno), .refused(errno: EACCES), Self.route6)
        #expect(refused.verdict == .refused(errno: EACCES) && refused.sources.count == 2)
    }

    /// A datagram socket chooses the source, and rules may select by transport.
    @Test func refusedDatagramSocketIsReviewed() {
        let refusal = RouteVerdict.refused(errno: EACCES)
        let start = [RouteVerdict.refused(errno: ENETUNREACH), refusal]
        var query = Self.ipv6
        query.interface = nil
        func review(_ verdicts: RouteVerdict...) -> Run { run(query, (start + verdicts).map(Result.success)) }
        let same = review(refusal, Self.route6)
        #expect(same == Run(sources: [.unspecified, .selected, Self.held6], verdict: refusal, decisive: .selected))
        for other in [Self.route6, .refused(errno: ENETUNREACH)] {
            let asked = [.unspecified, .selected, Self.held6, Self.held6]
            let found = review(other, refusal)
            #expect(found == Run(sources: asked, verdict: other, decisive: Self.held6, compared: [Self.held6]))
            // A datagram from there is not refused: another source was chosen.
            let chosen = review(other, Self.route6)
            #expect(chosen == Run(sources: asked, verdict: refusal, decisive: .selected, compared: [Self.held6]))
        }
        // A lookup with a source is less strict about the interface than a bound socket.
        for other in [.refused(errno: ENETUNREACH), RouteVerdict.through(3, via: "fe80::1", from: "2001:db8::10")] {
            let bound = run(Self.ipv6, (start + [other, refusal]).map(Result.success))
            #expect(bound.verdict == .refused(errno: ENETUNREACH) && bound.decisive == .unspecified && bound.compared.isEmpty)
        }
        #expect(run(Self.ipv6, (start + [Self.route6, refusal]).map(Result.success)).verdict == Self.route6)
    }

    @Test func missingGlobalSourceNeedsNoSocket() {
        func link(_ address: NetworkInterface.Address, hasCarrier: Bool = true) -> [NetworkInterface] {
            let addresses = [held("192.0.2.10/24"), address]
            return [.loopback, NetworkInterface(index: 2, name: "cable0", hasCarrier: hasCarrier, addresses: addresses)]
        }
        let without = [
            link(held("fe80::10/64")), link(held("2001:db8::10/64", tentative: true)), link(held("2001:db8::10/64", failed: true)),
            [.loopback],
        ]
        for interfaces in without {
            let result = run(Self.ipv6, .refused(errno: ENETUNREACH), Self.route6, over: interfaces)
            #expect(result.verdict == .refused(errno: ENETUNREACH) && result.sources == [.unspecified])
        }
        for address in [held("2001:db8::10/64", tentative: true, optimistic: true), held("fd00::10/64")] {
            #expect(run(Self.ipv6, .refused(errno: ENETUNREACH), Self.route6, over: link(address)).sources.count == 2)
        }
        // A route for it may lead through the pulled cable, which is then the reason.
        let pulled = link(held("2001:db8::10/64"), hasCarrier: false)
        #expect(run(Self.ipv6, .refused(errno: ENETUNREACH), Self.route6, over: pulled).sources == [.unspecified, .selected])
    }

    private static let noSocket = Result<RouteVerdict, ReachabilityError>.failure(
        ReachabilityError(.permissionDenied, errno: EPERM, operation: "setsockopt(SO_MARK)"))

    private static let two = [
        NetworkInterface.loopback, .cable,
        NetworkInterface(index: 3, name: "cable1", addresses: [held("2001:db8:1::10/64"), held("2001:db8:2::10/64")]),
    ]

    @Test func eachSourceIsTriedWithoutASocket() {
        let refused = Result<RouteVerdict, ReachabilityError>.success(.refused(errno: ENETUNREACH))
        var query = Self.ipv6
        query.interface = nil
        let found = RouteVerdict.through(3, via: "fe80::1", from: "2001:db8:1::10")
        let result = run(query, [refused, Self.noSocket, refused, .success(found), refused], Self.two)
        let second = RouteQuery.Source.address(ip("2001:db8:1::10"))
        #expect(result == Run(sources: [.unspecified, .selected, Self.held6, second], verdict: found, decisive: second))
        let none = run(query, [refused, Self.noSocket, refused, refused, .success(.refused(errno: EACCES)), refused], Self.two)
        #expect(none.sources.count == 5 && none.verdict == .refused(errno: ENETUNREACH) && none.decisive == .unspecified)
    }

    @Test func sourcesOnUsableInterfacesAreTriedFirst() {
        var interfaces = Self.two
        interfaces[1].hasCarrier = false
        let refused = Result<RouteVerdict, ReachabilityError>.success(.refused(errno: ENETUNREACH))
        let result = run(Self.ipv6, [refused, Self.noSocket] + Array(repeating: refused, count: 3), interfaces)
        let tried = ["2001:db8:1::10", "2001:db8:2::10", "2001:db8::10"].map { RouteQuery.Source.address(ip($0)) }
        #expect(result.sources == [.unspecified, .selected] + tried)
    }

    /// A lookup with a source may lead through another interface than the one that the socket is bound to.
    @Test func triedSourceMustUseTheSocketsInterface() {
        let refused = Result<RouteVerdict, ReachabilityError>.success(.refused(errno: ENETUNREACH))
        let elsewhere = RouteVerdict.through(3, via: "fe80::1", from: "2001:db8::10")
        let bound = RouteVerdict.through(2, via: "fe80::1", from: "2001:db8:1::10")
        let result = run(Self.ipv6, [refused, Self.noSocket, .success(elsewhere), .success(bound)], Self.two)
        #expect(result.verdict == bound && result.sources.count == 4)
        let none = run(Self.ipv6, [refused, Self.noSocket] + Array(repeating: .success(elsewhere), count: 3), Self.two)
        #expect(none.verdict == .refused(errno: ENETUNREACH))
    }

    @Test func atMostSixteenSourcesAreTried() {
        let addresses = (1...40).map { held("2001:db8::\($0)/64") }
        let link = NetworkInterface(index: 2, name: "cable0", addresses: addresses)
        let refused = Result<RouteVerdict, ReachabilityError>.success(.refused(errno: ENETUNREACH))
        let result = run(Self.ipv6, [refused, Self.noSocket] + Array(repeating: refused, count: 60), [link])
        #expect(result.sources.count == 18 && result.verdict == .refused(errno: ENETUNREACH))
    }

    // MARK: - Errors

    @Test func errorLeavesTheVerdictOpen() {
        let failure = ReachabilityError(.requestFailed, errno: ENOBUFS, operation: "RTM_GETROUTE")
        let shortage = ReachabilityError(.resourcesExhausted, errno: EMFILE, operation: "socket()")
        let refused = Result<RouteVerdict, ReachabilityError>.success(.refused(errno: ENETUNREACH))
        #expect(run(Self.ipv4, [.failure(failure)]).error == failure)
        #expect(run(Self.ipv4, [.success(.through()), .failure(failure)]).error == failure)
        #expect(run(Self.ipv6, [refused, Self.noSocket, .failure(failure)]).error == failure)
        // Only a socket that cannot be made is done without.
        #expect(run(Self.ipv6, [Self.noSocket]).error?.code == .permissionDenied)
        #expect(run(Self.ipv4, [.success(.through()), .failure(shortage)]).error == shortage)
    }

    @Test func missingSocketLeavesTheLookupsToDecide() {
        let shortage = ReachabilityError(.resourcesExhausted, errno: EMFILE, operation: "socket()")
        let refused = Result<RouteVerdict, ReachabilityError>.success(.refused(errno: ENETUNREACH))
        let result = run(Self.ipv6, [refused, .failure(shortage), .success(Self.route6)])
        #expect(result.error == nil && result.verdict == Self.route6 && result.decisive == Self.held6)
    }

    @Test func unbindableSourceLeavesTheFirstLookupToDecide() {
        let result = run(Self.ipv4, [.success(.through()), Self.noSocket])
        #expect(result.error == nil && result.verdict == .through() && result.decisive == .unspecified)
    }

    // MARK: - Groups

    private static let members = ["198.41.0.4", "193.0.14.129", "192.5.5.241"].map(ip)

    /// Asks a group over IPv4 and returns the members that were asked, the one that decided, and its verdict.
    private func ask(
        prefersRemote: Bool = true, _ answers: [RouteVerdict]
    ) throws -> (asked: [IPAddress], decisive: IPAddress, verdict: RouteVerdict) {
        let table = InterfaceTable([.loopback, .cable])
        var batch = LookupBatch(expecting: ip("192.0.2.10"))
        batch.append([Lookup(RouteQuery(to: Self.members[0]), Self.members, prefersRemote: prefersRemote)])
        var asked: [IPAddress] = []
        while case let round = batch.nextRound(), let first = round.first {
            if asked.last != first.destination { asked.append(first.destination) }
            let answer = answers[try #require(Self.members.firstIndex(of: first.destination))]
            batch.accept(round.map { _ in .success(answer) }, table)
        }
        let decisions = try batch.decisions(about: 0)
        #expect(decisions.count == 1)
        return (asked, decisions[0].query.destination, decisions[0].verdict)
    }

    private static let blackhole = RouteVerdict.refused(errno: EINVAL)
    private static let missing = RouteVerdict.refused(errno: ENETUNREACH)
    private static let own = RouteVerdict.through(1, via: nil, from: "127.0.0.1", isLocal: true)

    @Test func laterMembersAreAskedOnlyAfterAFailure() throws {
        let first = try ask([.through(), Self.blackhole, Self.blackhole])
        #expect(first.asked == [Self.members[0]] && first.verdict == .through())
        let second = try ask([Self.blackhole, .through(via: "192.0.2.2"), Self.blackhole])
        #expect(second.asked == Array(Self.members.prefix(2)))
        #expect(second.decisive == Self.members[1] && second.verdict == .through(via: "192.0.2.2"))
    }

    @Test func machineWithoutAnAddressAsksOneMember() throws {
        let members = ["2001:503:ba3e::2:30", "2001:7fd::1"].map(ip)
        func rounds(_ addresses: [NetworkInterface.Address]) -> Int {
            var cable = NetworkInterface.cable
            cable.addresses = addresses
            var batch = LookupBatch()
            batch.append([Lookup(RouteQuery(to: members[0]), members, prefersRemote: true)])
            var rounds = 0
            while case let round = batch.nextRound(), !round.isEmpty {
                rounds += 1
                batch.accept(round.map { _ in .success(Self.missing) }, InterfaceTable([.loopback, cable]))
            }
            return rounds
        }
        #expect(rounds([held("192.0.2.10/24"), held("fe80::10/64")]) == 1)
        // Each of the two is looked up, then by a socket, then with the address, because only datagrams may be refused.
        #expect(rounds([held("2001:db8::10/64")]) == 2 * 3)
    }

    @Test func unusableWayIsAFailureOfItsMember() throws {
        // A pin to another uplink that has gone.
        let result = try ask([.through(9), .through(), .through()])
        #expect(result.asked.count == 2 && result.decisive == Self.members[1])
    }

    @Test func firstMemberDescribesAFailedGroup() throws {
        let result = try ask([Self.missing, Self.blackhole, Self.blackhole])
        #expect(result.asked == Self.members && result.decisive == Self.members[0] && result.verdict == Self.missing)
    }

    @Test func memberThatWasNotRecordedIsLeftOut() throws {
        var lookup = Lookup(RouteQuery(to: Self.members[0]), Self.members)
        try lookup.accept(.success(Self.blackhole), InterfaceTable([.cable]))
        try lookup.accept(.failure(ReachabilityError(.notRecorded, operation: "RTM_GETROUTE")), InterfaceTable([.cable]))
        #expect(lookup.isDone && lookup.query.destination == Self.members[0] && lookup.verdict == Self.blackhole)
        var other = Lookup(RouteQuery(to: Self.members[0]), Self.members)
        try other.accept(.success(Self.blackhole), InterfaceTable([.cable]))
        let failure = ReachabilityError(.requestFailed, errno: ENOBUFS, operation: "RTM_GETROUTE")
        #expect(throws: failure) { try other.accept(.failure(failure), InterfaceTable([.cable])) }
    }

    @Test func heldMemberIsPassedOver() throws {
        #expect(try ask([Self.own, .through(), Self.missing]).decisive == Self.members[1])
        #expect(try ask([Self.own, Self.missing, Self.blackhole]).verdict == Self.missing)
        #expect(try ask([Self.missing, Self.own, Self.own]).verdict == Self.missing)
        #expect(try ask([Self.own, Self.own, Self.own]).verdict == Self.own)
        #expect(try ask(prefersRemote: false, [Self.missing, Self.own, .through()]).verdict == Self.own)
    }

    // MARK: - Several scopes

    @Test func roundHasOnlyOpenQueries() throws {
        let table = InterfaceTable([.loopback, .cable])
        var batch = LookupBatch()
        batch.append([Self.ipv4, Self.ipv6].map { Lookup($0) })
        batch.append([])
        batch.append([Lookup(RouteQuery(to: ip("1.1.1.1")))])
        batch.append([Lookup(RouteQuery(to: ip("9.9.9.9")))])
        #expect(
            batch.nextRound().map(\.destination) == [ip("198.41.0.4"), ip("2001:503:ba3e::2:30"), ip("1.1.1.1"), ip("9.9.9.9")])
        let failure = ReachabilityError(.requestFailed, errno: ENOBUFS, operation: "RTM_GETROUTE")
        batch.accept([.success(.through()), .success(Self.route6), .failure(failure), .success(.refused(errno: EACCES))], table)
        let round = batch.nextRound()
        #expect(round == [Self.ipv4.from(Self.held4)] && batch.position(ofQuery: 0) == 0)
        batch.accept([.success(.through())], table)
        #expect(batch.nextRound().isEmpty)
        let first = try batch.decisions(about: 0)
        #expect(first.map(\.query) == [Self.ipv4.from(Self.held4), Self.ipv6])
        #expect(first.map(\.verdict) == [.through(), Self.route6])
        #expect(try batch.decisions(about: 1).isEmpty)
        #expect(throws: failure) { _ = try batch.decisions(about: 2) }
        #expect(try batch.decisions(about: 3).map(\.verdict) == [.refused(errno: EACCES)])
    }

    @Test func missingAnswersFailTheirScopes() throws {
        var batch = LookupBatch()
        batch.append([Lookup(RouteQuery(to: ip("1.1.1.1")))])
        batch.append([Lookup(RouteQuery(to: ip("9.9.9.9")))])
        _ = batch.nextRound()
        batch.accept([.success(.refused(errno: EACCES))], InterfaceTable([.cable]))
        #expect(batch.nextRound().isEmpty)
        #expect(try batch.decisions(about: 0).count == 1)
        #expect(throws: ReachabilityError.self) { _ = try batch.decisions(about: 1) }
    }
}
