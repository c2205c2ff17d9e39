internal import Reachability

/// A small model of the kernel's network state.
///
/// Pure: changes return the events that the kernel would send.
struct SimulatedKernel: Sendable {
    struct Route: Equatable, Sendable {
        var destination: IPPrefix
        var gateway: IPAddress?
        /// The index of the outgoing interface; `nil` for a route that refuses.
        var interface: UInt32?
        var metric: UInt32
        var kind: SimulatedNetwork.RouteKind
        var source: IPAddress?
        /// Made by the kernel for an address's on-link prefix.
        var isConnected = false
    }

    var links: [NetworkInterface]
    var routes: [Route] = []
    /// Whether the other end of a link would give carrier, by index: it cannot be seen while the link is down.
    var pluggedIn: [UInt32: Bool] = [:]
    private var nextIndex: UInt32 = 2

    init() {
        links = [
            NetworkInterface(
                index: 1, name: "lo", kind: .loopback, operationalState: .unknown,
                addresses: [
                    NetworkInterface.Address(IPAddress(family: .ipv4, value: 0x7f00_0001), prefixLength: 8),
                    NetworkInterface.Address(IPAddress(family: .ipv6, value: 1), prefixLength: 128),
                ])
        ]
    }

    func position(_ name: String) throws(SimulationError) -> Int {
        guard let position = links.firstIndex(where: { $0.name == name }) else {
            throw SimulationError("no interface is named \(name); there are \(links.map(\.name).joined(separator: ", "))")
        }
        return position
    }

    mutating func makeIndex() -> UInt32 {
        defer { nextIndex += 1 }
        return nextIndex
    }

    /// An address with its prefix length, such as `192.0.2.10/24`; without one it is the whole address.
    static func address(_ text: String) throws(SimulationError) -> NetworkInterface.Address {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(String(parts[0])), let length = parts.count == 2 ? Int(parts[1]) : address.family.bitWidth,
            0...address.family.bitWidth ~= length
        else { throw SimulationError("\(text) is no address; write 192.0.2.10/24 or 2001:db8::10/64") }
        return NetworkInterface.Address(address, prefixLength: length)
    }

    /// A destination: `default` or `default6`, or a prefix such as `10.0.0.0/8`.
    static func prefix(_ text: String) throws(SimulationError) -> IPPrefix {
        switch text {
        case "default", "0/0": return .all(.ipv4)
        case "default6": return .all(.ipv6)
        default:
            let address = try address(text)
            return IPPrefix(address.address, length: address.prefixLength)
        }
    }
}
