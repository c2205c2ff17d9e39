import Reachability
import ReachabilityTesting

/// A change that can be made to a network namespace and to the model alike.
enum Operation: Hashable, Sendable {
    /// Of a route: where it leads, and its place.
    struct Key: Hashable, Sendable {
        var destination: String
        var metric: UInt32?
        var table: UInt32 = 254
        /// Where packets must come from, over IPv6.
        var sources: String?

        var isIPv6: Bool { destination.contains(":") }
    }

    case addLink(String, index: UInt32)
    case removeLink(String)
    case setUp(String, Bool)
    case setCarrier(String, Bool)
    case addAddress(String, String)
    case removeAddress(String, String)
    case addRoute(Key, via: String?, dev: String, source: String?)
    case replaceRoute(Key, via: String?, dev: String)
    case addRefusal(Key, SimulatedKernel.RouteType)
    case addMultipath(Key, [SimulatedKernel.Hop])
    case addRouteThroughNexthop(Key, UInt32)
    case removeRoute(Key, via: String?, dev: String?)
    case addRule(SimulatedKernel.Rule)
    case removeRule(UInt32, IPAddress.Family)
    case addNexthop(UInt32, via: String, dev: String)
    case addBlackholeNexthop(UInt32, IPAddress.Family)
    case addNexthopGroup(UInt32, [UInt32])
    case replaceNexthop(UInt32, via: String, dev: String)
    case replaceNexthopByBlackhole(UInt32, IPAddress.Family)
    case removeNexthop(UInt32)
    case setSysctl(String, Int)

    /// Makes the change to the model.
    func apply(to network: SimulatedNetwork) throws(SimulationError) {
        switch self {
        case .addLink(let name, let index):
            let given = try network.addLink(name, kind: .virtual, isUp: false)
            if given != index { throw SimulationError("addLink(\"\(name)\")", "its index is \(given), not \(index)") }
        case .removeLink(let name): try network.removeLink(name)
        case .setUp(let name, let isUp): try network.setUp(name, isUp)
        case .setCarrier(let name, let hasCarrier): try network.setCarrier(name, hasCarrier)
        case .addAddress(let name, let address):
            try network.addAddress(name, address, skipsDetection: address.contains(":"))
        case .removeAddress(let name, let address): try network.removeAddress(name, address)
        case .addRoute(let key, let gateway, let name, let source):
            try network.addRoute(
                to: key.destination, via: gateway, dev: name, metric: key.metric, source: source, table: key.table,
                from: key.sources)
        case .replaceRoute(let key, let gateway, let name):
            try network.replaceRoute(
                to: key.destination, via: gateway, dev: name, metric: key.metric, table: key.table, from: key.sources)
        case .addRefusal(let key, let type):
            try network.addRoute(to: key.destination, metric: key.metric, type: type, table: key.table, from: key.sources)
        case .addMultipath(let key, let hops):
            try network.addRoute(to: key.destination, through: hops, metric: key.metric, table: key.table)
        case .addRouteThroughNexthop(let key, let id):
            try network.addRoute(to: key.destination, nexthop: id, metric: key.metric, table: key.table)
        case .removeRoute(let key, let gateway, let name):
            try network.removeRoute(
                to: key.destination, via: gateway, dev: name, metric: key.metric, table: key.table, from: key.sources)
        case .addRule(let rule): try network.addRule(rule)
        case .removeRule(let priority, let family): try network.removeRule(priority: priority, family: family)
        case .addNexthop(let id, let gateway, let name): try network.addNexthop(id, via: gateway, dev: name)
        case .addBlackholeNexthop(let id, let family): try network.addBlackholeNexthop(id, family: family)
        case .addNexthopGroup(let id, let members): try network.addNexthopGroup(id, of: members)
        case .replaceNexthop(let id, let gateway, let name): try network.replaceNexthop(id, via: gateway, dev: name)
        case .replaceNexthopByBlackhole(let id, _): try network.replaceNexthopByBlackhole(id)
        case .removeNexthop(let id): try network.removeNexthop(id)
        case .setSysctl(let key, let value): try network.setSysctl(key, value)
        }
    }
}
