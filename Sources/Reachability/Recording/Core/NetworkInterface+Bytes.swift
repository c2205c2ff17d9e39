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
        return interface
    }

    mutating func interfaceAddress() throws(MalformedBytes) -> NetworkInterface.Address {
        var address = NetworkInterface.Address(try address(), prefixLength: Int(try integer(Int32.self)))
        address.isTentative = try flag()
        address.isOptimistic = try flag()
        address.hasFailedDetection = try flag()
        return address
    }
}
