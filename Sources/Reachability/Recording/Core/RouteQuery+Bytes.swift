extension ByteWriter {
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
}

extension ByteReader {
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
}
