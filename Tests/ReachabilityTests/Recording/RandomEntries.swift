import Reachability
import ReachabilityTesting

/// A generator of random entries.
struct RandomEntries {
    private var generator: SeededGenerator

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &generator) }

    mutating func bool() -> Bool { Bool.random(using: &generator) }

    mutating func number() -> UInt32 { UInt32.random(in: 0...(.max), using: &generator) >> UInt32(below(32)) }

    /// Returns a number, sometimes an extreme one.
    mutating func time() -> Duration {
        switch below(20) {
        case 0: .nanoseconds(Int64.max)
        case 1: .nanoseconds(Int64.min)
        case 2: .zero
        default: .nanoseconds(Int64.random(in: 0...1_000_000_000_000, using: &generator))
        }
    }

    mutating func address() -> IPAddress {
        let count = bool() ? 4 : 16
        var bytes: [UInt8] = []
        for _ in 0..<count { bytes.append(UInt8(below(256))) }
        return IPAddress(bytes: bytes) ?? ip("::")
    }

    mutating func text() -> String {
        let samples: [Character] = ["e", "t", "h", "0", "\\", "ü", "\u{202e}", "\n", "😀", "\0"]
        var text = ""
        for _ in 0..<below(16) { text.append(samples[below(samples.count)]) }
        return text
    }

    private mutating func maybe<Value>(_ body: (inout RandomEntries) -> Value) -> Value? { bool() ? body(&self) : nil }

    private mutating func some<Value>(_ bound: Int, _ body: (inout RandomEntries) -> Value) -> [Value] {
        var values: [Value] = []
        for _ in 0..<below(bound) { values.append(body(&self)) }
        return values
    }

    private mutating func heldAddress() -> NetworkInterface.Address {
        .init(address(), prefixLength: below(129), isTentative: bool(), isOptimistic: bool(), hasFailedDetection: bool())
    }

    mutating func interface() -> NetworkInterface {
        var interface = NetworkInterface(
            index: number(), name: text(), kind: .init(rawValue: text()), isUp: bool(), hasCarrier: bool(),
            isPointToPoint: bool(), operationalState: .init(rawValue: UInt8(below(7))) ?? .up, carrierChanges: number(),
            addresses: some(4) { $0.heldAddress() })
        interface.alternativeNames = some(3) { $0.text() }
        (interface.linkKind, interface.master) = (text(), maybe { $0.number() })
        interface.underlay =
            switch below(4) {
            case 0: .none
            case 1: .device(number())
            case 2:
                .remote(
                    .init(
                        address: address(), source: maybe { $0.address() }, interface: maybe { $0.number() },
                        mark: maybe { $0.number() }, typeOfService: UInt8(below(256)), transport: transport()))
            default: .ground
            }
        return interface
    }

    private mutating func inspection() -> Inspection {
        bool() ? .ownRoute(among: some(3) { $0.number() }) : .port(bridge: number(), interface: number(), gateway: address())
    }

    mutating func event() -> NetworkEvent {
        switch below(13) {
        case 11: .neighbour(address(), interface: number(), answers: bool())
        case 0: .link(interface())
        case 1: .linkRemoved(index: number())
        case 2: .address(heldAddress(), interface: number())
        case 3: .addressRemoved(heldAddress(), interface: number())
        case 4:
            .route(
                RouteChange(
                    IPPrefix(address(), length: below(129)), gateway: maybe { $0.address() }, interface: maybe { $0.number() },
                    isRemoval: bool()))
        case 5: .rule(isRemoval: bool())
        case 6: .nexthop(id: number(), isRemoval: bool())
        case 7: .netconf(interface: maybe { $0.number() })
        case 8: .overrun
        case 9: .host(text(), below(2) == 0 ? .addresses(some(3) { $0.address() }) : .failed(failure()))
        case 10: .resolverChanged(file: text())
        default: .resumed(after: time())
        }
    }

    private mutating func failure() -> NameLookupFailure {
        [.notFound, .noAnswer, .refused, .notAsked, NameLookupFailure(rawValue: text())][below(5)]
    }

    private mutating func transport() -> Scope.Transport { Scope.Transport(rawValue: UInt8(below(256))) }

    mutating func batch() -> NetworkEventBatch {
        NetworkEventBatch(
            some(6) { $0.event() }, now: BootInstant(sinceBoot: time()), wallTime: time(), hasMore: bool(), spoofed: below(3),
            malformed: below(3),
            drops: below(3), reopens: below(3), isPolled: bool(), receiveBuffer: maybe { Int($0.number()) },
            impairment: maybe { $0.error() })
    }

    mutating func error() -> ReachabilityError {
        ReachabilityError(.init(rawValue: text()), errno: Int32(below(200)) - 50, operation: text())
    }

    mutating func query() -> RouteQuery {
        var query = RouteQuery(
            to: address(), interface: maybe { $0.number() }, mark: maybe { $0.number() }, uid: maybe { $0.number() },
            source: [.unspecified, .address(address()), .selected][below(3)], transport: transport(),
            port: maybe { UInt16($0.below(1 << 16)) }, fibMatch: bool())
        query.typeOfService = UInt8(below(256))
        return query
    }

    mutating func verdict() -> RouteVerdict {
        guard bool() else { return .refused(errno: Int32(below(200)) - 50) }
        var route = RouteVerdict.Route(
            interface: number(), gateway: maybe { $0.address() }, source: maybe { $0.address() }, table: number(),
            metric: maybe { $0.number() }, prefixLength: maybe { $0.below(129) }, isLocal: bool())
        route.lifetime = maybe { $0.time() }
        route.nextHops = some(3) { random in
            .init(interface: random.number(), gateway: random.maybe { $0.address() }, isDead: random.bool())
        }
        route.choosesByPorts = bool()
        return .route(route)
    }

    mutating func scope() -> Scope {
        var scope = [Scope.internet, .address(address()), .host(text())][below(3)]
        scope.mark = maybe { $0.number() }
        scope.uid = maybe { $0.number() }
        scope.interface = maybe { $0.text() }
        scope.transport = transport()
        scope.port = maybe { UInt16($0.below(1 << 16)) }
        return scope
    }

    private mutating func answer<Value>(_ body: (inout RandomEntries) -> Value) -> RecordingEntry.Answer<Value> {
        .init(below(4) > 0 ? .success(body(&self)) : .failure(error()), isForBatch: bool())
    }

    mutating func content(_ kind: Int) -> RecordingEntry.Content {
        switch kind {
        case 0: .session(scopes: some(4) { $0.scope() })
        case 1: .interfaces(answer { random in random.some(4) { $0.interface() } })
        case 2: .route(query(), answer { $0.verdict() })
        case 3: .gap(lost: UInt64(number()))
        case 5: .inspection(inspection(), answer { random in random.maybe { $0.number() } })
        case 6: .links(some(3) { $0.number() }, answer { random in random.some(4) { $0.interface() } })
        case 4: .end(maybe { $0.error() })
        default: .batch(batch())
        }
    }

    /// Returns an entry of a random kind, most often a batch.
    mutating func entry() -> RecordingEntry {
        let content = content(below(10))
        if case .batch(let batch) = content { return RecordingEntry(content, now: batch.now.sinceBoot, wallTime: batch.wallTime) }
        return RecordingEntry(content, now: time(), wallTime: time())
    }

    mutating func entries(_ count: Int) -> [RecordingEntry] { (0..<count).map { _ in entry() } }
}
