public import Reachability

extension SimulatedKernel {
    /// A nexthop object, as of ip-nexthop(8): a way that routes lead, kept apart from them.
    public struct Nexthop: Hashable, Sendable {
        /// What an object stands for.
        public enum Target: Hashable, Sendable {
            /// One way.
            case nextHop(NextHop)
            /// Routes through it refuse with EINVAL.
            case blackhole
            /// Any of these objects, by their numbers.
            case group([UInt32])
        }

        /// The number that routes name it by.
        public var id: UInt32
        /// The family of the routes that may lead through it: IPv6's need an object of their own.
        public var family: IPAddress.Family
        /// What it stands for.
        public var target: Target
    }

    /// Adds a nexthop object, like `ip nexthop add`.
    ///
    /// It is announced.
    ///
    /// - Parameters:
    ///   - id: Its number.
    ///   - gateway: The next hop; not checked for being on the link, as with `onlink`.
    ///   - name: The link, which must be up and have carrier.
    ///   - family: The family of an object without a gateway.
    public mutating func addNexthop(
        _ id: UInt32, via gateway: String? = nil, dev name: String, family: IPAddress.Family = .ipv4
    ) throws(SimulationError) {
        let operation = "addNexthop(\(id))"
        try insert(try makeNexthop(id, via: gateway, dev: name, family, operation), operation)
    }

    /// Adds a nexthop object whose routes refuse everything, like `ip nexthop add id … blackhole`.
    ///
    /// It is announced. The loopback device must be up, and for IPv6 have it enabled.
    public mutating func addBlackholeNexthop(_ id: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        let operation = "addBlackholeNexthop(\(id))"
        try insert(try makeBlackhole(id, family, operation), operation)
    }

    /// Adds a group of nexthop objects, like `ip nexthop add id … group`.
    ///
    /// It is announced.
    public mutating func addNexthopGroup(_ id: UInt32, of members: [UInt32]) throws(SimulationError) {
        let operation = "addNexthopGroup(\(id), of: \(members))"
        let found = nexthops.filter { members.contains($0.id) }
        guard let first = found.first, found.count == members.count else {
            throw SimulationError(operation, "its members must be different objects that exist, at least one (EINVAL)")
        }
        for member in found {
            guard case .nextHop = member.target, member.family == first.family else {
                throw SimulationError(operation, "its members must be objects of one family that lead somewhere (EINVAL)")
            }
        }
        try insert(Nexthop(id: id, family: first.family, target: .group(members)), operation)
    }

    /// Replaces a nexthop object, like `ip nexthop replace`: the routes through it lead there from now on.
    ///
    /// It is announced, and then each route through it; with `nexthop_compat_mode=0` the object alone.
    public mutating func replaceNexthop(_ id: UInt32, via gateway: String? = nil, dev name: String) throws(SimulationError) {
        let operation = "replaceNexthop(\(id))"
        let old = try nexthop(id, for: operation)
        try replace(old, by: try makeNexthop(id, via: gateway, dev: name, old.family, operation), operation)
    }

    /// Replaces a nexthop object by one that refuses everything.
    ///
    /// It is announced like ``replaceNexthop(_:via:dev:)``.
    public mutating func replaceNexthopByBlackhole(_ id: UInt32) throws(SimulationError) {
        let operation = "replaceNexthopByBlackhole(\(id))"
        let old = try nexthop(id, for: operation)
        try replace(old, by: try makeBlackhole(id, old.family, operation), operation)
    }

    /// Removes a nexthop object, like `ip nexthop del`.
    ///
    /// Announced are the object, the IPv6 routes through it (not with `nexthop_compat_mode=0`), and each group that goes on
    /// without it; its IPv4 routes go in silence.
    public mutating func removeNexthop(_ id: UInt32) throws(SimulationError) {
        drop(try nexthop(id, for: "removeNexthop(\(id))"), isAnnounced: true)
    }

    func nexthop(_ id: UInt32, for operation: String) throws(SimulationError) -> Nexthop {
        guard let nexthop = nexthops.first(where: { $0.id == id }) else {
            throw SimulationError(operation, "there is no nexthop object \(id) (ENOENT); add it first")
        }
        return nexthop
    }

    private func makeNexthop(
        _ id: UInt32, via gateway: String?, dev name: String, _ family: IPAddress.Family, _ operation: String
    ) throws(SimulationError) -> Nexthop {
        let next = try gateway.map { text throws(SimulationError) in try parseAddress(text, for: operation).address }
        let link = links[try position(of: name, for: operation)]
        guard link.interface.isUp, link.interface.hasCarrier else {
            throw SimulationError(operation, "\(name) is down or has no carrier (ENETDOWN)")
        }
        let family = next?.family ?? family
        guard family == .ipv4 || !link.isIPv6Disabled else {
            throw SimulationError(operation, "IPv6 is disabled on \(name) (EINVAL)")
        }
        return Nexthop(id: id, family: family, target: .nextHop(NextHop(next, link.interface.index)))
    }

    private func makeBlackhole(
        _ id: UInt32, _ family: IPAddress.Family, _ operation: String
    ) throws(SimulationError) -> Nexthop {
        // It hangs on the loopback device.
        guard let loopback = link(at: Self.loopbackIndex), loopback.interface.isUp, family == .ipv4 || !loopback.isIPv6Disabled
        else {
            throw SimulationError(operation, "the loopback device is down, or IPv6 is disabled on it (ENETDOWN)")
        }
        return Nexthop(id: id, family: family, target: .blackhole)
    }

    private mutating func insert(_ nexthop: Nexthop, _ operation: String) throws(SimulationError) {
        guard nexthop.id != 0, !nexthops.contains(where: { $0.id == nexthop.id }) else {
            throw SimulationError(operation, "the number must not be 0 or in use (EEXIST)")
        }
        nexthops.insert(nexthop, at: nexthops.firstIndex { $0.id > nexthop.id } ?? nexthops.endIndex)
        announce(.nexthop(id: nexthop.id, isRemoval: false))
    }

    private mutating func replace(_ old: Nexthop, by new: Nexthop, _ operation: String) throws(SimulationError) {
        guard let place = nexthops.firstIndex(of: old) else { return }
        if case .group = old.target { throw SimulationError(operation, "a group cannot become a single object (EINVAL)") }
        let isMember = !groups(with: old.id).isEmpty
        guard new.family == old.family, new.target != .blackhole || !isMember else {
            throw SimulationError(operation, "the new object must suit the routes and groups that it is in (EINVAL)")
        }
        nexthops[place] = new
        announce(.nexthop(id: new.id, isRemoval: false))
        guard settings.isNexthopCompatible else { return }
        let users = Set([new.id] + groups(with: new.id).map(\.id))
        for route in routes where route.nexthop.map(users.contains) ?? false {
            announce(.route(change(of: route, isRemoval: false)))
        }
    }
}
