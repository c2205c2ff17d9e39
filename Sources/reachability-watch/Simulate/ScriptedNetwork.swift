import CommandKit
import Reachability
import ReachabilityTesting

/// The machine of a scenario and the script of its changes.
///
/// The script is played when it is built, so that a change which the kernel would reject is reported with its line. What
/// an attempt meets at any time is then a matter of looking it up.
struct ScriptedNetwork: Sendable {
    /// A change of the script, as the scenario file names it.
    enum Action: Hashable {
        case pull(String)
        case plug(String)
        case down(String)
        case up(String)
        /// The default route leads through a link; `nil` for no default route.
        case defaultRoute(String?)
        case suspend(Duration)
        /// The user's "retry now" button.
        case retryNow
    }

    /// A change of the kernel's state.
    enum Change: Hashable {
        case carrier(String, Bool)
        case link(String, isUp: Bool)
        case addDefault(gateway: String, link: String)
        /// Removes a default route, unless the kernel has removed it already.
        case removeDefault(gateway: String, link: String)
    }

    /// A change with its time.
    struct Step: Hashable {
        var at: Duration
        var action: Action
        /// The changes of the kernel's state, which it makes at once.
        var changes: [Change] = []
    }

    /// The machine's way to the servers.
    enum Uplink: Hashable {
        /// Packets arrive, and come from these addresses.
        case working([IPAddress])
        /// The kernel sends packets, and none arrives: a cable is out.
        case silent
        /// The kernel refuses to send: ENETUNREACH.
        case noRoute
    }

    private struct Link: Hashable {
        var name: String
        var gateways: [String]
    }

    /// The kernel at the beginning.
    private(set) var kernel = SimulatedKernel()
    /// The changes, in the order of their times.
    private(set) var steps: [Step] = []
    /// The ways to the servers with their beginnings; the first one begins at zero.
    private(set) var uplinks: [(at: Duration, uplink: Uplink)] = []

    private var links: [Link] = []
    /// The link of the default route.
    private var defaultLink: String?
    /// The kernel after all steps.
    private var latest = SimulatedKernel()
    private var suspensions: [(from: Duration, until: Duration)] = []

    /// The names of the links.
    var linkNames: [String] { links.map(\.name) }

    /// Adds a link, or another address to a link; the first one gets the default route.
    mutating func addLink(
        _ name: String, _ address: String, via gateway: String, isPlugged: Bool
    ) throws(SimulationError) {
        if let index = links.firstIndex(where: { $0.name == name }) {
            links[index].gateways.append(gateway)
        } else {
            try kernel.addLink(name, hasCarrier: isPlugged)
            links.append(Link(name: name, gateways: [gateway]))
        }
        try kernel.addAddress(name, address, skipsDetection: true)
        if links.first?.name == name {
            defaultLink = name
            try Change.addDefault(gateway: gateway, link: name).apply(to: &kernel)
        }
    }

    /// Ends the list of links; steps may follow.
    mutating func begin() {
        latest = kernel
        uplinks = [(.zero, uplink)]
    }

    /// Adds a step, which must not be earlier than the last one.
    ///
    /// - Throws: The kernel's objection.
    mutating func add(_ action: Action, at time: Duration) throws(SimulationError) {
        let time = effectiveTime(time)
        let changes = changes(for: action)
        for change in changes { try change.apply(to: &latest) }
        steps.append(Step(at: time, action: action, changes: changes))
        switch action {
        case .defaultRoute(let name): defaultLink = name
        case .suspend(let duration): suspensions.append((time, time + duration))
        case .pull, .plug, .down, .up, .retryNow: break
        }
        let uplink = uplink
        if uplinks.last?.uplink != uplink { uplinks.append((time, uplink)) }
    }

    /// Returns the time at which something happens that is scripted for `time`: in a suspension nothing does before its end.
    func effectiveTime(_ time: Duration) -> Duration {
        suspensions.first { $0.from < time && time < $0.until }?.until ?? time
    }

    /// Returns the index of the way to the servers at a time.
    func uplinkIndex(at time: Duration) -> Int {
        var (low, high) = (0, uplinks.count)
        while low < high {
            let middle = (low + high) / 2
            if uplinks[middle].at <= time { low = middle + 1 } else { high = middle }
        }
        return max(0, low - 1)
    }

    /// Returns the changes that an action makes.
    private func changes(for action: Action) -> [Change] {
        switch action {
        case .pull(let name): return [.carrier(name, false)]
        case .plug(let name): return [.carrier(name, true)]
        case .down(let name): return [.link(name, isUp: false)]
        // Like a network manager: the kernel does not restore routes through gateways.
        case .up(let name): return [.link(name, isUp: true)] + (name == defaultLink ? addition(of: name) : [])
        case .defaultRoute(let name):
            let removal = links.first { $0.name == defaultLink }.map { link in
                link.gateways.map { Change.removeDefault(gateway: $0, link: link.name) }
            }
            return (removal ?? []) + (name.map(addition) ?? [])
        case .suspend, .retryNow: return []
        }
    }

    private func addition(of name: String) -> [Change] {
        links.filter { $0.name == name }.flatMap { link in
            link.gateways.map { .addDefault(gateway: $0, link: name) }
        }
    }

    /// One of the addresses that stand for the internet in each family, as the monitor has them.
    private static let destinations = ["1.1.1.1", "2801:1b8:10::b"].compactMap(IPAddress.init)

    private var uplink: Uplink {
        var hasRoute = false
        var sources: [IPAddress] = []
        for destination in Self.destinations {
            guard case .route(let route) = latest.route(to: RouteQuery(to: destination, source: .selected)) else { continue }
            hasRoute = true
            let interface = latest.interfaces.first { $0.index == route.interface }
            if let interface, interface.hasCarrier, let source = route.source { sources.append(source) }
        }
        if sources.isEmpty { return hasRoute ? .silent : .noRoute }
        return .working(sources)
    }
}

extension ScriptedNetwork.Change {
    /// Makes the change.
    func apply(to kernel: inout SimulatedKernel) throws(SimulationError) {
        switch self {
        case .carrier(let name, let hasCarrier): try kernel.setCarrier(name, hasCarrier)
        case .link(let name, let isUp): try kernel.setUp(name, isUp)
        case .addDefault(let gateway, let link): try kernel.replaceRoute(to: "default", via: gateway, dev: link)
        case .removeDefault(let gateway, let link): try? kernel.removeRoute(to: "default", via: gateway, dev: link)
        }
    }
}

extension ScriptedNetwork.Action: CustomStringConvertible {
    /// The action as the scenario file has it.
    var description: String {
        switch self {
        case .pull(let name): "pull \(name)"
        case .plug(let name): "plug \(name)"
        case .down(let name): "down \(name)"
        case .up(let name): "up \(name)"
        case .defaultRoute(let name): "default \(name ?? "none")"
        case .suspend(let duration): "suspend \(durationText(duration))"
        case .retryNow: "retry-now"
        }
    }
}
