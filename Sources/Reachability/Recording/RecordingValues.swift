/// A writer of the values of a recording: little-endian, without padding.
package struct ByteWriter: Sendable {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func append(_ value: Bool) { bytes.append(value ? 1 : 0) }

    package mutating func append(_ value: Duration) { append(value.wholeNanoseconds) }

    /// Appends the number of bytes, then the text in UTF-8.
    package mutating func append(_ text: String) { appendCounted(Array(text.utf8)) }

    package mutating func append(_ address: IPAddress) {
        append(UInt8(address.family == .ipv4 ? 4 : 6))
        bytes.append(contentsOf: address.bytes)
    }

    /// Appends a flag, then the value if there is one.
    package mutating func append<Value>(_ value: Value?, _ body: (inout ByteWriter, Value) -> Void) {
        append(value != nil)
        if let value { body(&self, value) }
    }

    /// Appends the number of elements, then each of them.
    package mutating func append<Element>(_ elements: [Element], _ body: (inout ByteWriter, Element) -> Void) {
        append(UInt32(clamping: elements.count))
        for element in elements { body(&self, element) }
    }

    /// Appends the number of bytes that `body` writes, then these bytes.
    package mutating func appendCounted(_ body: (inout ByteWriter) -> Void) {
        var part = ByteWriter()
        body(&part)
        appendCounted(part.bytes)
    }

    package mutating func appendCounted(_ part: [UInt8]) {
        append(UInt32(clamping: part.count))
        bytes.append(contentsOf: part)
    }
}

extension Duration {
    /// The duration in whole nanoseconds, clamped to 64 bits.
    package var wholeNanoseconds: Int64 { Int64(clamping: attoseconds / 1_000_000_000) }
}

/// The error of bytes that do not follow the format.
package struct MalformedBytes: Error, Hashable {
    package init() {}
}

/// A reader of the values that ``ByteWriter`` writes.
///
/// The bytes may be arbitrary.
///
/// Allocates in proportion to the bytes that exist, not to the counts that they claim.
package struct ByteReader: Sendable {
    private var rest: ArraySlice<UInt8>
    /// The version of the bytes' format.
    package let version: UInt16

    package init(_ bytes: ArraySlice<UInt8>, version: UInt16 = RecordingFormat.majorVersion) {
        rest = bytes
        self.version = version
    }

    package mutating func bytes(_ count: Int) throws(MalformedBytes) -> ArraySlice<UInt8> {
        guard count >= 0, count <= rest.count else { throw MalformedBytes() }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    package mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type = Value.self) throws(MalformedBytes) -> Value {
        let bytes = try bytes(Value.bitWidth / 8)
        return bytes.reversed().reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }

    package mutating func flag() throws(MalformedBytes) -> Bool {
        switch try integer(UInt8.self) {
        case 0: return false
        case 1: return true
        default: throw MalformedBytes()
        }
    }

    package mutating func duration() throws(MalformedBytes) -> Duration { .nanoseconds(try integer(Int64.self)) }

    package mutating func text() throws(MalformedBytes) -> String {
        guard let text = String(validating: try countedBytes(), as: UTF8.self) else { throw MalformedBytes() }
        return text
    }

    package mutating func address() throws(MalformedBytes) -> IPAddress {
        let count: Int
        switch try integer(UInt8.self) {
        case 4: count = 4
        case 6: count = 16
        default: throw MalformedBytes()
        }
        guard let address = IPAddress(bytes: try bytes(count)) else { throw MalformedBytes() }
        return address
    }

    package mutating func optional<Value>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Value
    ) throws(MalformedBytes) -> Value? {
        try flag() ? try body(&self) : nil
    }

    package mutating func optionalNumber() throws(MalformedBytes) -> UInt32? {
        try optional { reader throws(MalformedBytes) in try reader.integer(UInt32.self) }
    }

    package mutating func optionalAddress() throws(MalformedBytes) -> IPAddress? {
        try optional { reader throws(MalformedBytes) in try reader.address() }
    }

    package mutating func array<Element>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Element
    ) throws(MalformedBytes) -> [Element] {
        let count = try integer(UInt32.self)
        var elements: [Element] = []
        // No capacity is reserved: the count may be wrong, and each element takes at least one byte.
        for _ in 0..<count { elements.append(try body(&self)) }
        return elements
    }

    /// Reads a number of bytes, then these bytes.
    package mutating func countedBytes() throws(MalformedBytes) -> ArraySlice<UInt8> {
        try bytes(Int(try integer(UInt32.self)))
    }
}

// MARK: - Batches and events

extension ByteWriter {
    mutating func append(_ batch: NetworkEventBatch) {
        append(batch.hasMore)
        append(Int64(batch.spoofed))
        append(Int64(batch.malformed))
        append(Int64(batch.drops))
        append(Int64(batch.reopens))
        append(batch.isPolled)
        append(batch.receiveBuffer) { $0.append(Int64($1)) }
        append(batch.events) { writer, event in
            writer.append(event.payload.tag)
            writer.appendCounted { $0.append(event.payload) }
        }
        append(batch.impairment) { $0.append($1) }
    }

    private mutating func append(_ payload: NetworkEvent.Payload) {
        switch payload {
        case .link(let interface): append(interface)
        case .linkRemoved(let index): append(index)
        case .address(let address, let interface), .addressRemoved(let address, let interface):
            append(interface)
            append(address)
        case .route(let change):
            append(change.destination.address)
            append(UInt8(change.destination.length))
            append(change.gateway) { $0.append($1) }
            append(change.interface) { $0.append($1) }
            append(change.isRemoval)
        case .rule(let isRemoval): append(isRemoval)
        case .nexthop(let id, let isRemoval):
            append(id)
            append(isRemoval)
        case .netconf(let interface): append(interface) { $0.append($1) }
        case .neighbour(let address, let interface, let answers):
            append(address)
            append(interface)
            append(answers)
        case .overrun: break
        case .resumed(let time): append(time)
        case .host(let name, let answer):
            append(name)
            append(answer)
        case .resolverChanged(let file): append(file)
        }
    }

    private mutating func append(_ answer: HostAnswer) {
        switch answer {
        case .addresses(let addresses):
            append(UInt8(0))
            append(addresses) { $0.append($1) }
        case .failed(let failure):
            append(UInt8(1))
            append(failure.rawValue)
        }
    }
}

extension ByteReader {
    mutating func batch(now: Duration, wallTime: Duration, skipped: inout Int) throws(MalformedBytes) -> NetworkEventBatch {
        var batch = NetworkEventBatch(now: BootInstant(sinceBoot: now), wallTime: wallTime, hasMore: try flag())
        batch.spoofed = Int(clamping: try integer(Int64.self))
        batch.malformed = Int(clamping: try integer(Int64.self))
        batch.drops = Int(clamping: try integer(Int64.self))
        batch.reopens = Int(clamping: try integer(Int64.self))
        batch.isPolled = try flag()
        batch.receiveBuffer = try optional { reader throws(MalformedBytes) in Int(clamping: try reader.integer(Int64.self)) }
        let count = try integer(UInt32.self)
        for _ in 0..<count {
            let tag = try integer(UInt16.self)
            var event = ByteReader(try countedBytes(), version: version)
            if let payload = try event.payload(tag) { batch.events.append(NetworkEvent(payload)) } else { skipped += 1 }
        }
        if version > 1 { batch.impairment = try optional { reader throws(MalformedBytes) in try reader.error() } }
        return batch
    }

    private mutating func hostAnswer() throws(MalformedBytes) -> HostAnswer {
        switch try integer(UInt8.self) {
        case 0:
            return .addresses(try array { reader throws(MalformedBytes) in try reader.address() })
        case 1: return .failed(version > 1 ? NameLookupFailure(rawValue: try text()) : .notFound)
        case 2 where version == 1: return .failed(.noAnswer)
        default: throw MalformedBytes()
        }
    }

    /// Reads an event, and returns `nil` if its tag is unknown.
    private mutating func payload(_ tag: UInt16) throws(MalformedBytes) -> NetworkEvent.Payload? {
        switch tag {
        case 1: return .link(try interface())
        case 2: return .linkRemoved(index: try integer())
        case 3, 4:
            let index = try integer(UInt32.self)
            let address = try interfaceAddress()
            return tag == 3 ? .address(address, interface: index) : .addressRemoved(address, interface: index)
        case 5:
            let first = try address()
            var change = RouteChange(IPPrefix(first, length: Int(try integer(UInt8.self))))
            change.gateway = try optionalAddress()
            change.interface = try optionalNumber()
            change.isRemoval = try flag()
            return .route(change)
        case 6: return .rule(isRemoval: try flag())
        case 7:
            let id = try integer(UInt32.self)
            return .nexthop(id: id, isRemoval: try flag())
        case 8: return .netconf(interface: try optionalNumber())
        case 9: return .overrun
        case 10: return .resumed(after: try duration())
        case 11:
            let name = try text()
            return .host(name, try hostAnswer())
        case 12: return .resolverChanged(file: try text())
        case 13:
            let address = try address()
            return .neighbour(address, interface: try integer(), answers: try flag())
        default: return nil
        }
    }
}

extension NetworkEvent.Payload {
    /// The number of the case in a file.
    fileprivate var tag: UInt16 {
        switch self {
        case .link: 1
        case .linkRemoved: 2
        case .address: 3
        case .addressRemoved: 4
        case .route: 5
        case .rule: 6
        case .nexthop: 7
        case .netconf: 8
        case .overrun: 9
        case .resumed: 10
        case .host: 11
        case .resolverChanged: 12
        case .neighbour: 13
        }
    }
}

// MARK: - Interfaces and addresses

extension ByteWriter {
    mutating func append(_ interface: NetworkInterface) {
        append(interface.index)
        append(interface.name)
        append(interface.kind.rawValue)
        append(interface.isUp)
        append(interface.hasCarrier)
        append(interface.operationalState.rawValue)
        append(interface.carrierChanges)
        append(interface.addresses) { $0.append($1) }
        append(interface.isPointToPoint)
        append(interface.alternativeNames) { $0.append($1) }
        append(interface.linkKind)
        append(interface.master) { $0.append($1) }
        append(interface.underlay)
    }

    private mutating func append(_ underlay: NetworkInterface.Underlay) {
        switch underlay {
        case .none: append(UInt8(0))
        case .device(let index):
            append(UInt8(1))
            append(index)
        case .remote(let remote):
            append(UInt8(2))
            append(remote.address)
            append(remote.source) { $0.append($1) }
            append(remote.interface) { $0.append($1) }
            append(remote.mark) { $0.append($1) }
            append(remote.typeOfService)
            append(remote.transport.rawValue)
        case .ground: append(UInt8(3))
        }
    }

    mutating func append(_ address: NetworkInterface.Address) {
        append(address.address)
        append(Int32(clamping: address.prefixLength))
        append(address.isTentative)
        append(address.isOptimistic)
        append(address.hasFailedDetection)
    }
}

extension ByteReader {
    mutating func interface() throws(MalformedBytes) -> NetworkInterface {
        var interface = NetworkInterface(index: try integer(), name: try text())
        interface.kind = NetworkInterface.Kind(rawValue: try text())
        interface.isUp = try flag()
        interface.hasCarrier = try flag()
        guard let state = NetworkInterface.OperationalState(rawValue: try integer()) else { throw MalformedBytes() }
        interface.operationalState = state
        interface.carrierChanges = try integer()
        interface.addresses = try array { reader throws(MalformedBytes) in try reader.interfaceAddress() }
        if version > 1 { interface.isPointToPoint = try flag() }
        guard version > 2 else { return interface }
        interface.alternativeNames = try array { reader throws(MalformedBytes) in try reader.text() }
        interface.linkKind = try text()
        interface.master = try optionalNumber()
        interface.underlay = try underlay()
        return interface
    }

    private mutating func underlay() throws(MalformedBytes) -> NetworkInterface.Underlay {
        switch try integer(UInt8.self) {
        case 0: return .none
        case 1: return .device(try integer())
        case 2:
            let (address, source, interface) = (try address(), try optionalAddress(), try optionalNumber())
            return .remote(
                .init(
                    address: address, source: source, interface: interface, mark: try optionalNumber(),
                    typeOfService: try integer(), transport: Scope.Transport(rawValue: try integer())))
        case 3: return .ground
        default: throw MalformedBytes()
        }
    }

    mutating func interfaceAddress() throws(MalformedBytes) -> NetworkInterface.Address {
        var address = NetworkInterface.Address(try address(), prefixLength: Int(try integer(Int32.self)))
        address.isTentative = try flag()
        address.isOptimistic = try flag()
        address.hasFailedDetection = try flag()
        return address
    }
}

// MARK: - Queries, verdicts, scopes and errors

extension ByteWriter {
    mutating func append(_ inspection: Inspection) {
        switch inspection {
        case .ownRoute(let interfaces):
            append(UInt8(0))
            append(interfaces) { $0.append($1) }
        case .port(let bridge, let interface, let gateway):
            append(UInt8(1))
            append(bridge)
            append(interface)
            append(gateway)
        }
    }

    mutating func append(_ query: RouteQuery) {
        append(query.destination)
        append(query.interface) { $0.append($1) }
        append(query.mark) { $0.append($1) }
        append(query.uid) { $0.append($1) }
        append(query.fibMatch)
        switch query.source {
        case .unspecified: append(UInt8(0))
        case .address(let address):
            append(UInt8(1))
            append(address)
        case .selected: append(UInt8(2))
        }
        append(query.transport.rawValue)
        append(query.port) { $0.append($1) }
        append(query.typeOfService)
    }

    mutating func append(_ verdict: RouteVerdict) {
        switch verdict {
        case .route(let route):
            append(true)
            append(route.interface)
            append(route.gateway) { $0.append($1) }
            append(route.source) { $0.append($1) }
            append(route.table)
            append(route.metric) { $0.append($1) }
            append(route.prefixLength) { $0.append(Int32(clamping: $1)) }
            append(route.isLocal)
            append(route.lifetime) { $0.append($1) }
            append(route.nextHops) { writer, hop in
                writer.append(hop.interface)
                writer.append(hop.gateway) { $0.append($1) }
                writer.append(hop.isDead)
            }
            append(route.choosesByPorts)
        case .refused(let errno):
            append(false)
            append(errno)
        }
    }

    mutating func append(_ scope: Scope) {
        switch scope.destination {
        case .internet: append(UInt8(0))
        case .address(let address):
            append(UInt8(1))
            append(address)
        case .host(let name):
            append(UInt8(2))
            append(name)
        }
        append(scope.mark) { $0.append($1) }
        append(scope.uid) { $0.append($1) }
        append(scope.interface) { $0.append($1) }
        append(scope.transport.rawValue)
        append(scope.port) { $0.append($1) }
    }

    mutating func append(_ error: ReachabilityError) {
        append(error.code.rawValue)
        append(error.errno)
        append(error.operation)
    }
}

extension ByteReader {
    mutating func inspection() throws(MalformedBytes) -> Inspection {
        switch try integer(UInt8.self) {
        case 0: return .ownRoute(among: try array { reader throws(MalformedBytes) in try reader.integer(UInt32.self) })
        case 1: return .port(bridge: try integer(), interface: try integer(), gateway: try address())
        default: throw MalformedBytes()
        }
    }

    mutating func query() throws(MalformedBytes) -> RouteQuery {
        var query = RouteQuery(to: try address())
        query.interface = try optionalNumber()
        query.mark = try optionalNumber()
        query.uid = try optionalNumber()
        query.fibMatch = try flag()
        guard version > 1 else { return query }
        switch try integer(UInt8.self) {
        case 0: query.source = .unspecified
        case 1: query.source = .address(try address())
        case 2: query.source = .selected
        default: throw MalformedBytes()
        }
        query.transport = Scope.Transport(rawValue: try integer())
        query.port = try optional { reader throws(MalformedBytes) in try reader.integer() }
        if version > 2 { query.typeOfService = try integer() }
        return query
    }

    mutating func verdict() throws(MalformedBytes) -> RouteVerdict {
        guard try flag() else { return .refused(errno: try integer()) }
        var route = RouteVerdict.Route(interface: try integer())
        route.gateway = try optionalAddress()
        route.source = try optionalAddress()
        route.table = try integer()
        route.metric = try optionalNumber()
        route.prefixLength = try optional { reader throws(MalformedBytes) in Int(try reader.integer(Int32.self)) }
        route.isLocal = try flag()
        guard version > 2 else { return .route(route) }
        route.lifetime = try optional { reader throws(MalformedBytes) in try reader.duration() }
        route.nextHops = try array { reader throws(MalformedBytes) in
            let (interface, gateway) = (try reader.integer(UInt32.self), try reader.optionalAddress())
            return RouteVerdict.Route.NextHop(interface: interface, gateway: gateway, isDead: try reader.flag())
        }
        route.choosesByPorts = try flag()
        return .route(route)
    }

    mutating func scope() throws(MalformedBytes) -> Scope {
        var scope: Scope
        switch try integer(UInt8.self) {
        case 0: scope = .internet
        case 1: scope = .address(try address())
        case 2: scope = .host(try text())
        default: throw MalformedBytes()
        }
        scope.mark = try optionalNumber()
        scope.uid = try optionalNumber()
        scope.interface = try optional { reader throws(MalformedBytes) in try reader.text() }
        guard version > 1 else { return scope }
        scope.transport = Scope.Transport(rawValue: try integer())
        scope.port = try optional { reader throws(MalformedBytes) in try reader.integer() }
        return scope
    }

    mutating func error() throws(MalformedBytes) -> ReachabilityError {
        let code = ReachabilityError.Code(rawValue: try text())
        let errno = try integer(Int32.self)
        return ReachabilityError(code, errno: errno, operation: try text())
    }
}
