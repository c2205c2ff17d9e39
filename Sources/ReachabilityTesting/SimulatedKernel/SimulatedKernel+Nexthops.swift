public import Reachability

extension SimulatedKernel {
    /// A nexthop object (ip-nexthop(8)): a next hop that several routes share.
    public struct NexthopObject: Hashable, Sendable {
        /// The target of a nexthop object.
        public enum Target: Hashable, Sendable {
            /// A next hop.
            case nextHop(NextHop)
            /// Refuses packets with EINVAL.
            case blackhole
            /// Any of these objects, by ID.
            case group([UInt32])
        }

        /// The ID that routes refer to.
        public var id: UInt32
        /// The family of the routes that may use it: IPv6 routes need IPv6 objects.
        public var family: IPAddress.Family
        /// The target.
        public var target: Target
    }

    /// Adds a nexthop object and announces it, like `ip nexthop add`.
    ///
    /// - Parameters:
    ///   - id: The ID.
    ///   - gateway: The gateway; not checked for being on the link, as with `onlink`.
    ///   - name: The link, which must be up and have a carrier.
    ///   - family: The family of an object without a gateway.
    public mutating func addNexthop(
        _ id: UInt32, via gateway: String? = nil, dev name: String, family: IPAddress.Family = .ipv4
    ) throws(SimulationError) {
        let operation = "addNexthop(\(id))"
        try insert(try makeNexthop(id, via: gateway, dev: name, family, operation), operation)
    }

    /// Adds a nexthop object that refuses packets and announces it, like `ip nexthop add id … blackhole`.
    ///
    /// The loopback device must be up, for IPv6 with IPv6 enabled.
    public mutating func addBlackholeNexthop(_ id: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        let operation = "addBlackholeNexthop(\(id))"
        try insert(try makeBlackhole(id, family, operation), operation)
    }

    /// Adds a group of nexthop objects and announces it, like `ip nexthop add id … group`.
    public mutating func addNexthopGroup(_ id: UInt32, of members: [UInt32]) throws(SimulationError) {
        let operation = "addNexthopGroup(\(id), of: \(members))"
        let found = nexthops.filter { members.contains($0.id) }
        guard let first = found.first, found.count == members.count else {
            throw SimulationError(operation, "the members must be different existing objects, at least one (EINVAL)")
        }
        for member in found {
            guard case .nextHop = member.target, member.family == first.family else {
                throw SimulationError(operation, "the members must be objects of one family with a next hop (EINVAL)")
            }
        }
        try insert(NexthopObject(id: id, family: first.family, target: .group(members)), operation)
    }

    /// Replaces a nexthop object under the routes that use it, like `ip nexthop replace`.
    ///
    /// Announces the object and then each route that uses it; with `nexthop_compat_mode=0` the object alone.
    public mutating func replaceNexthop(_ id: UInt32, via gateway: String? = nil, dev name: String) throws(SimulationError) {
        let operation = "replaceNexthop(\(id))"
        let old = try nexthop(id, for: operation)
        try replace(old, by: try makeNexthop(id, via: gateway, dev: name, old.family, operation), operation)
    }

    /// Replaces a nexthop object by one that refuses packets; announced like ``replaceNexthop(_:via:dev:)``.
    public mutating func replaceNexthopByBlackhole(_ id: UInt32) throws(SimulationError) {
        let operation = "replaceNexthopByBlackhole(\(id))"
        let old = try nexthop(id, for: operation)
        try replace(old, by: try makeBlackhole(id, old.family, operation), operation)
    }

    /// Removes a nexthop object, like `ip nexthop del`.
    ///
    /// Announces the object, its IPv6 routes (not with `nexthop_compat_mode=0`) and each group that continues without it. Its
    /// IPv4 routes are removed without an announcement.
    public mutating func removeNexthop(_ id: UInt32) throws(SimulationError) {
        drop(try nexthop(id, for: "removeNexthop(\(id))"), isAnnounced: true)
    }

    func nexthop(_ id: UInt32, for operation: String) throws(SimulationError) -> NexthopObject {
        guard let nexthop = nexthops.first(where: { $0.id == id }) else {
            throw SimulationError(operation, "nexthop object \(id) does not exist (ENOENT); add it first")
        }
        return nexthop
    }

    private func makeNexthop(
        _ id: UInt32, via gateway: String?, dev name: String, _ family: IPAddress.Family, _ operation: String
    ) throws(SimulationError) -> NexthopObject {
        let next = try parseHost(gateway, for: operation)
        let link = links[try position(of: name, for: operation)]
        guard link.interface.isUp, link.interface.hasCarrier else {
            throw SimulationError(operation, "\(name) is down or has no carrier (ENETDOWN)")
        }
        let family = next?.family ?? family
        guard family == .ipv4 || !link.isIPv6Disabled else {
            throw SimulationError(operation, "IPv6 is disabled on \(name) (EINVAL)")
        }
        return NexthopObject(id: id, family: family, target: .nextHop(NextHop(next, link.interface.index)))
    }

    private func makeBlackhole(
        _ id: UInt32, _ family: IPAddress.Family, _ operation: String
    ) throws(SimulationError) -> NexthopObject {
        // A blackhole is attached to the loopback device.
        guard let loopback = link(at: Self.loopbackIndex), loopback.interface.isUp, family == .ipv4 || !loopback.isIPv6Disabled
        else {
            throw SimulationError(operation, "the loopback device is down, or IPv6 is disabled on it (ENETDOWN)")
        }
        return NexthopObject(id: id, family: family, target: .blackhole)
    }

    private mutating func insert(_ nexthop: NexthopObject, _ operation: String) throws(SimulationError) {
        guard nexthop.id != 0, !nexthops.contains(where: { $0.id == nexthop.id }) else {
            throw SimulationError(operation, "the ID must not be 0 or in use (EEXIST)")
        }
        nexthops.insert(nexthop, at: nexthops.firstIndex { $0.id > nexthop.id } ?? nexthops.endIndex)
        announce(.nexthop(id: nexthop.id, isRemoval: false))
    }

    private mutating func replace(_ old: NexthopObject, by new: NexthopObject, _ operation: String) throws(SimulationError) {
        guard let place = nexthops.firstIndex(of: old) else { return }
        if case .group = old.target { throw SimulationError(operation, "a group cannot become a single object (EINVAL)") }
        let isMember = !groups(with: old.id).isEmpty
        guard new.family == old.family, new.target != .blackhole || !isMember else {
            throw SimulationError(operation, "the new object must suit its routes and groups (EINVAL)")
        }
        nexthops[place] = new
        announce(.nexthop(id: new.id, isRemoval: false))
        guard sysctls.isNexthopCompatible else { return }
        let users = Set([new.id] + groups(with: new.id).map(\.id))
        for route in routes where route.nexthop.map(users.contains) ?? false {
            announce(.route(change(of: route, isRemoval: false)))
        }
    }
}

/// The effects of nexthop objects on routes (net/ipv4/nexthop.c).
extension SimulatedKernel {
    /// Returns the groups that contain a nexthop object.
    private func groups(with id: UInt32) -> [NexthopObject] {
        nexthops.filter { nexthop in
            if case .group(let members) = nexthop.target { members.contains(id) } else { false }
        }
    }

    /// Returns the next hops of a route, also those of its nexthop object.
    func nextHops(of route: Route) -> [NextHop] {
        guard let id = route.nexthop else { return route.nextHops }
        return nextHops(ofNexthop: id)
    }

    private func nextHops(ofNexthop id: UInt32) -> [NextHop] {
        switch nexthops.first(where: { $0.id == id })?.target {
        case .nextHop(let nextHop): [nextHop]
        case .group(let members): members.flatMap(nextHops(ofNexthop:))
        case .blackhole, nil: []
        }
    }

    /// Returns `true` if the route's nexthop object refuses packets.
    func isBlackhole(_ route: Route) -> Bool {
        nexthops.contains { $0.id == route.nexthop && $0.target == .blackhole }
    }

    /// Removes the objects through a link that goes down or loses its carrier.
    ///
    /// Announces their IPv6 routes but no object (remove_nexthop() without a netlink request).
    mutating func dropNexthops(on interface: UInt32) {
        let affected = nexthops.filter { nexthop in
            if case .nextHop(let nextHop) = nexthop.target { nextHop.interface == interface } else { false }
        }
        for nexthop in affected { drop(nexthop, isAnnounced: false) }
    }

    /// Removes an object with its routes, and from its groups; a group that becomes empty is removed too.
    mutating func drop(_ nexthop: NexthopObject, isAnnounced: Bool) {
        let users = routes.filter { $0.nexthop == nexthop.id }
        let changes = users.filter { $0.family == .ipv6 }.map { change(of: $0, isRemoval: true) }
        routes.removeAll { $0.nexthop == nexthop.id }
        let groups = groups(with: nexthop.id)
        nexthops.removeAll { $0.id == nexthop.id }
        if isAnnounced { announce(.nexthop(id: nexthop.id, isRemoval: true)) }
        if sysctls.isNexthopCompatible { for change in changes { announce(.route(change)) } }
        for group in groups {
            guard case .group(let members) = group.target, let place = nexthops.firstIndex(of: group) else { continue }
            let rest = members.filter { $0 != nexthop.id }
            guard !rest.isEmpty else {
                drop(group, isAnnounced: isAnnounced)
                continue
            }
            nexthops[place].target = .group(rest)
            if isAnnounced { announce(.nexthop(id: group.id, isRemoval: false)) }
        }
    }
}
