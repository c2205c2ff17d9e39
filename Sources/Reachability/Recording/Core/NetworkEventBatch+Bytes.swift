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
        case .overrun: break
        case .resumed(let time): append(time)
        case .host(let name, let answer):
            append(name)
            append(answer)
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

    /// Reads an event; `nil` if its tag is unknown.
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
        default: return nil
        }
    }
}

extension NetworkEvent.Payload {
    /// The number that stands for the case in a file.
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
        }
    }
}
