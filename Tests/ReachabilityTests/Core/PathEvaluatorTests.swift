import Glibc
import Reachability
import Testing

@Suite struct PathEvaluatorTests {
    private let evaluator = PathEvaluator(
        ipv4Representatives: [[ip("198.41.0.4"), ip("193.0.14.129")], [ip("1.1.1.1"), ip("64.6.64.6")]],
        ipv6Representatives: [[ip("2001:503:ba3e::2:30")], [ip("2801:1b8:10::b")]])

    /// The verdict about the internet when all lookups of a family get the same answer.
    private func internet(
        ipv4: RouteVerdict = .through(), ipv6: RouteVerdict = .refused(errno: ENETUNREACH),
        _ interfaces: [NetworkInterface] = [.loopback, .cable]
    ) -> NetworkPath {
        let table = InterfaceTable(interfaces)
        let answers = (evaluator.lookups(for: .internet, table) ?? []).map(\.query.destination).map {
            RouteAnswer($0, $0.family == .ipv4 ? ipv4 : ipv6)
        }
        return evaluator.path(for: .internet, answers, table)
    }

    @Test func aRouteThroughAWorkingInterfaceFromAHeldAddressSatisfies() {
        let path = internet()
        #expect(path.status == .satisfied)
        #expect(path.offlineReason == nil)
        #expect(path.interface?.name == "cable0")
        #expect(path.ipv4.gateway == ip("192.0.2.1") && path.ipv4.source == ip("192.0.2.10") && path.ipv4.table == 254)
        #expect(path.gateways == [ip("192.0.2.1")] && path.supportsIPv4 && !path.supportsIPv6)
        #expect(path.ipv6.reason == .noRoute)
    }

    @Test func eitherFamilyAloneSatisfies() {
        let path = internet(ipv4: .refused(errno: ENETUNREACH), ipv6: .through(via: "fe80::1", from: "2001:db8::10"))
        #expect(path.status == .satisfied && path.interface?.name == "cable0" && path.ipv6.gateway == ip("fe80::1"))
    }

    @Test(arguments: [
        (EHOSTUNREACH, OfflineReason.unreachable), (EACCES, .prohibited), (EINVAL, .blackhole), (ENETUNREACH, .noRoute),
        (EAFNOSUPPORT, .noRoute),
    ])
    func theKernelsRefusalIsTheReason(errno: Int32, reason: OfflineReason) {
        let path = internet(ipv4: .refused(errno: errno))
        #expect(path.status == .unsatisfied && path.offlineReason == reason && path.ipv4.reason == reason)
    }

    @Test func laterFamilyReasonIsThePathsReason() {
        #expect(internet(ipv4: .refused(errno: ENETUNREACH), ipv6: .refused(errno: EACCES)).offlineReason == .prohibited)
        #expect(internet(ipv4: .refused(errno: EINVAL), ipv6: .refused(errno: EACCES)).offlineReason == .blackhole)
    }

    @Test func halfOfTheInternetIsNotTheInternet() {
        let table = InterfaceTable([.loopback, .cable])
        let answers = [RouteAnswer(ip("198.41.0.4"), .refused(errno: ENETUNREACH)), RouteAnswer(ip("1.1.1.1"), .through())]
        #expect(evaluator.path(for: .internet, answers, table).offlineReason == .noRoute)
        #expect(evaluator.path(for: .internet, answers.reversed(), table).status == .unsatisfied)
    }

    @Test func firstRepresentativeDescribesThePath() {
        let table = InterfaceTable([.loopback, .cable])
        let answers = [RouteAnswer(ip("198.41.0.4"), .through()), RouteAnswer(ip("1.1.1.1"), .through(via: "192.0.2.2"))]
        #expect(evaluator.path(for: .internet, answers, table).ipv4.gateway == ip("192.0.2.1"))
    }

    @Test func heldRepresentativeIsIgnoredBesideOthers() {
        let table = InterfaceTable([.loopback, .cable])
        let local = RouteAnswer(ip("198.41.0.4"), .through(1, via: nil, from: "127.0.0.1", isLocal: true))
        let refused = RouteAnswer(ip("1.1.1.1"), .refused(errno: ENETUNREACH))
        #expect(evaluator.path(for: .internet, [local, refused], table).offlineReason == .noRoute)
        #expect(
            evaluator.path(for: .internet, [local, RouteAnswer(ip("1.1.1.1"), .through())], table).ipv4.gateway == ip("192.0.2.1"))
        #expect(evaluator.path(for: .internet, [local], table).status == .satisfied)
    }

    @Test(arguments: [(false, true, OfflineReason.adminDown), (true, false, .noCarrier), (false, false, .adminDown)])
    func anInterfaceThatCannotSendDoesNotSatisfy(isUp: Bool, hasCarrier: Bool, reason: OfflineReason) {
        var cable = NetworkInterface.cable
        cable.isUp = isUp
        cable.hasCarrier = hasCarrier
        #expect(internet([.loopback, cable]).offlineReason == reason)
    }

    @Test(arguments: [
        (NetworkInterface.OperationalState.up, true), (.unknown, true), (.dormant, false), (.lowerLayerDown, true), (.down, true),
        (.testing, false), (.notPresent, false),
    ])
    func onlyThreeStatesStopAnInterfaceWithCarrier(state: NetworkInterface.OperationalState, isUsable: Bool) {
        var cable = NetworkInterface.cable
        cable.operationalState = state
        let path = internet([.loopback, cable])
        #expect(path.isSatisfied == isUsable)
        #expect(path.offlineReason == (isUsable ? nil : .dormant))
    }

    @Test func routeThroughTheLoopbackDeviceLeadsNowhere() {
        #expect(internet(ipv4: .through(1, via: nil, from: "127.0.0.1")).status == .unsatisfied)
    }

    @Test(arguments: ["0.0.0.0", "127.0.0.1", "169.254.1.1", "203.0.113.5"])
    func aSourceThatCannotBeUsedDoesNotSatisfy(source: String) {
        var cable = NetworkInterface.cable
        cable.addresses.append(held("169.254.1.1/16"))
        let gateways = ip(source).isLinkLocal ? [nil] : ["192.0.2.1", nil]
        for gateway in gateways {
            #expect(internet(ipv4: .through(via: gateway, from: source), [.loopback, cable]).status == .unsatisfied)
        }
        #expect(internet(ipv4: .through(from: nil), [.loopback, cable]).status == .unsatisfied)
    }

    @Test func linkLocalIPv4SourceNeedsAGateway() {
        var cable = NetworkInterface.cable
        cable.addresses = [held("169.254.1.1/30"), held("fe80::10/64")]
        #expect(internet(ipv4: .through(via: "169.254.1.2", from: "169.254.1.1"), [.loopback, cable]).isSatisfied)
        let zeroconf = internet(ipv4: .through(via: nil, from: "169.254.1.1"), [.loopback, cable])
        #expect(zeroconf.offlineReason == .noAddress)
        let other = internet(
            ipv4: .refused(errno: ENETUNREACH), ipv6: .through(via: "fe80::1", from: "fe80::10"), [.loopback, cable])
        #expect(other.status == .unsatisfied, "RFC 4291: routers do not forward it")
    }

    @Test func blockThatIsLocalByRouteIsHeld() {
        let table = InterfaceTable([.loopback, .cable])
        for address in ["198.51.100.7", "2001:db8:7::7"].map(ip) {
            let own = RouteVerdict.route(RouteVerdict.Route(interface: 1, source: address, table: 255, isLocal: true))
            #expect(evaluator.path(for: .address(address), [RouteAnswer(address, own)], table).isSatisfied)
        }
        let answer = RouteAnswer(ip("203.0.113.1"), .through(from: "198.51.100.7"), source: "198.51.100.7")
        #expect(evaluator.path(for: .address(ip("203.0.113.1")), [answer], table).isSatisfied)
        // The kernel does not confirm IPv6 sources.
        let other = RouteAnswer(ip("2001:db8:9::9"), .through(via: "fe80::1", from: "2001:db8:7::7"), source: "2001:db8:7::7")
        #expect(!evaluator.path(for: .address(ip("2001:db8:9::9")), [other], table).isSatisfied)
    }

    @Test func tentativeSourceIsUsableOnlyIfOptimistic() {
        let answer = RouteVerdict.through(via: "fe80::1", from: "2001:db8::10")
        func path(_ address: NetworkInterface.Address) -> NetworkPath {
            var cable = NetworkInterface.cable
            cable.addresses = [address, held("fe80::10/64")]
            return internet(ipv4: .refused(errno: ENETUNREACH), ipv6: answer, [.loopback, cable])
        }
        #expect(path(held("2001:db8::10/64")).isSatisfied)
        #expect(path(held("2001:db8::10/64", tentative: true)).offlineReason == .addressTentative)
        #expect(path(held("2001:db8::10/64", tentative: true, optimistic: true)).isSatisfied)
        #expect(path(held("2001:db8::10/64", tentative: true, failed: true)).offlineReason == .noAddress)
        #expect(path(held("2001:db8::10/64", failed: true)).offlineReason == .noAddress)
    }

    @Test func loopbackSourceMeansATentativeAddress() {
        let path = internet(ipv4: .refused(errno: ENETUNREACH), ipv6: .through(via: "fe80::1", from: "::1"))
        #expect(path.status == .unsatisfied)
    }

    @Test func uniqueLocalSourceIsUsable() {
        var cable = NetworkInterface.cable
        cable.addresses = [held("fd00::2/64")]
        #expect(internet(ipv4: .refused(errno: ENETUNREACH), ipv6: .through(via: "fe80::1", from: "fd00::2"), [cable]).isSatisfied)
    }

    @Test func addressOfAnotherInterfaceMayBeTheSource() {
        var cable = NetworkInterface.cable
        cable.addresses = []
        var loopback = NetworkInterface.loopback
        loopback.addresses.append(held("192.0.2.10/32"))
        #expect(internet([loopback, cable]).isSatisfied)
    }

    @Test func linkLocalSourceReachesALinkLocalHost() {
        let table = InterfaceTable([.loopback, .cable])
        let scope = Scope.address(ip("fe80::99"))
        let path = evaluator.path(for: scope, [RouteAnswer(ip("fe80::99"), .through(via: nil, from: "fe80::10"))], table)
        #expect(path.isSatisfied && path.ipv6.gateway == nil)
    }

    @Test func machineReachesItself() {
        let table = InterfaceTable([.loopback])
        let path = evaluator.path(
            for: .address(ip("127.0.0.1")), [RouteAnswer(ip("127.0.0.1"), .through(1, via: nil, from: "127.0.0.1", isLocal: true))],
            table)
        #expect(path.isSatisfied && path.interface?.name == "lo")
    }

    @Test func addressLooksUpItsOwnFamily() {
        let path = evaluator.path(
            for: .address(ip("203.0.113.1")), [RouteAnswer(ip("203.0.113.1"), .refused(errno: EACCES))], InterfaceTable([.cable]))
        #expect(path.ipv4.reason == .prohibited && path.ipv6 == FamilyPath() && path.offlineReason == .prohibited)
    }

    @Test func queriesCarryTheScopesProperties() throws {
        var scope = Scope.address(ip("203.0.113.1"))
        scope.mark = 7
        scope.uid = 1000
        scope.interface = "cable0"
        let queries = try #require(evaluator.lookups(for: scope, InterfaceTable([.cable])))
        #expect(queries.map(\.query) == [RouteQuery(to: ip("203.0.113.1"), interface: 2, mark: 7, uid: 1000)])
        #expect(evaluator.lookups(for: scope, InterfaceTable([.loopback])) == nil)
        #expect(evaluator.path(for: scope, nil, InterfaceTable([.loopback])).offlineReason == .noInterface)
    }

    @Test func onLinkGuessDoesNotSatisfy() {
        var scope = Scope.address(ip("203.0.113.1"))
        scope.interface = "cable0"
        let guess = RouteVerdict.route(RouteVerdict.Route(interface: 2, source: ip("192.0.2.10"), table: 0))
        let path = evaluator.path(for: scope, [RouteAnswer(ip("203.0.113.1"), guess, interface: 2)], InterfaceTable([.cable]))
        #expect(path.offlineReason == .noRoute)
    }

    @Test func internetNeedsRepresentatives() {
        let empty = PathEvaluator(ipv4Representatives: [], ipv6Representatives: [[ip("1.1.1.1")], []])
        let path = empty.path(for: .internet, [], InterfaceTable([.cable]))
        #expect(path.status == .unsatisfied && path.offlineReason == .noRoute)
    }

    // MARK: - Reasons

    /// A container engine's bridge: up, with an address, and leading nowhere.
    private static let docker = NetworkInterface(index: 9, name: "docker0", kind: .virtual, addresses: [held("172.17.0.1/16")])

    @Test func pulledCableBesideABridgeIsTheReason() {
        var cable = NetworkInterface.cable
        cable.hasCarrier = false
        let path = internet([.loopback, cable, Self.docker])
        #expect(path.offlineReason == .noCarrier && path.ipv4.reason == .noCarrier)
        #expect(path.ipv6.reason == .noAddress || path.ipv6.reason == .noRoute, "inferred, and of less weight")
        // Over the other family alike.
        let other = internet(
            ipv4: .refused(errno: ENETUNREACH), ipv6: .through(via: "fe80::1", from: "2001:db8::10"),
            [.loopback, cable, Self.docker])
        #expect(other.offlineReason == .noCarrier && other.ipv4.reason == .noRoute)
    }

    @Test func evidenceBeatsInferenceBetweenFamilies() {
        var dormant = NetworkInterface.cable
        dormant.operationalState = .dormant
        // IPv4 chose a dormant interface; IPv6 found nothing, and the bridge got furthest.
        var bridge = Self.docker
        bridge.addresses.append(held("2001:db8:17::1/64"))
        let path = internet([.loopback, dormant, bridge])
        #expect(path.ipv6.reason == .noRoute && path.offlineReason == .dormant)
        // Two inferences: the later one counts.
        #expect(internet(ipv4: .refused(errno: ENETUNREACH), [.loopback, dormant, bridge]).offlineReason == .noRoute)
        // Two that are evident: the later one counts.
        #expect(internet(ipv6: .refused(errno: EHOSTUNREACH), [.loopback, dormant, bridge]).offlineReason == .unreachable)
    }

    @Test func refusedHeldSourceIsABlackhole() {
        let table = InterfaceTable([.loopback, .cable])
        func reason(_ errno: Int32, from source: String) -> OfflineReason? {
            evaluator.path(
                for: .address(ip("203.0.113.1")), [RouteAnswer(ip("203.0.113.1"), .refused(errno: errno), source: source)], table
            ).offlineReason
        }
        #expect(reason(EINVAL, from: "192.0.2.10") == .blackhole && reason(EINVAL, from: "192.0.2.99") == .noAddress)
        #expect(reason(ENETUNREACH, from: "192.0.2.10") == .noRoute && reason(ENETUNREACH, from: "192.0.2.99") == .noAddress)
        #expect(reason(EACCES, from: "192.0.2.99") == .prohibited)
    }

    // MARK: - Bound sockets

    /// The path of a scope that is bound to an interface, when the kernel only guesses that the destination is on the link.
    private func guessed(_ link: NetworkInterface, source: String?) -> NetworkPath {
        var scope = Scope.address(ip("203.0.113.1"))
        scope.interface = link.name
        let guess = RouteVerdict.route(RouteVerdict.Route(interface: link.index, source: source.map(ip), table: 0))
        return evaluator.path(
            for: scope, [RouteAnswer(ip("203.0.113.1"), guess, interface: link.index, source: source)],
            InterfaceTable([link, .cable]))
    }

    @Test func onLinkGuessSatisfiesOnAPointToPointLink() {
        var link = NetworkInterface(index: 7, name: "tun0", kind: .tunnel, isPointToPoint: true, addresses: [held("10.8.0.2/24")])
        #expect(guessed(link, source: "10.8.0.2").isSatisfied && guessed(link, source: "192.0.2.10").isSatisfied)
        #expect(guessed(link, source: nil).offlineReason == .noAddress)
        link.isPointToPoint = false
        #expect(guessed(link, source: "10.8.0.2").offlineReason == .noRoute, "not the source's fault")
        link.hasCarrier = false
        #expect(guessed(link, source: "10.8.0.2").offlineReason == .noCarrier)
    }

    @Test func loopbackInterfaceLeadsNowhereElse() {
        var scope = Scope.address(ip("203.0.113.1"))
        scope.interface = "lo"
        let table = InterfaceTable([.loopback, .cable])
        let guess = RouteVerdict.route(RouteVerdict.Route(interface: 1, source: ip("192.0.2.10"), table: 0))
        let path = evaluator.path(for: scope, [RouteAnswer(ip("203.0.113.1"), guess, interface: 1)], table)
        #expect(path.offlineReason == .noInterface)
    }

    // MARK: - This host

    @Test func unspecifiedAddressesAreThisHost() throws {
        let table = InterfaceTable([.loopback])
        #expect(evaluator.lookups(for: .address(ip("::")), table)?.map(\.query.destination) == [ip("::1")])
        #expect(evaluator.lookups(for: .address(ip("0.0.0.0")), table)?.map(\.query.destination) == [ip("0.0.0.0")])
        // The kernel answers about 0.0.0.0 without a table.
        let own = RouteVerdict.route(RouteVerdict.Route(interface: 1, source: ip("127.0.0.1"), table: 0, isLocal: true))
        #expect(evaluator.path(for: .address(ip("0.0.0.0")), [RouteAnswer(ip("0.0.0.0"), own)], table).isSatisfied)
    }

    @Test func queriesCarryTransportAndPort() throws {
        var scope = Scope.internet
        #expect(
            evaluator.lookups(for: scope, InterfaceTable())?.allSatisfy { $0.query.transport == .tcp && $0.query.port == nil }
                == true)
        (scope.transport, scope.port) = (.udp, 53)
        #expect(
            evaluator.lookups(for: scope, InterfaceTable())?.allSatisfy { $0.query.transport == .udp && $0.query.port == 53 }
                == true)
    }
}
