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

    /// A change with its time.
    struct Step: Hashable {
        var at: Duration
        var action: Action
        /// The link of the default route before the change.
        fileprivate var defaultLink: String?
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
    /// The number of addresses of all links.
    var addressCount: Int { links.reduce(0) { $0 + $1.gateways.count } }

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
            try kernel.replaceRoute(to: "default", via: gateway, dev: name)
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
        let step = Step(at: effectiveTime(time), action: action, defaultLink: defaultLink)
        var kernel = latest
        try apply(step, to: &kernel)
        latest = kernel
        steps.append(step)
        switch action {
        case .defaultRoute(let name): defaultLink = name
        case .suspend(let duration): suspensions.append((step.at, step.at + duration))
        case .pull, .plug, .down, .up, .retryNow: break
        }
        let uplink = uplink
        if uplinks.last?.uplink != uplink { uplinks.append((step.at, uplink)) }
    }

    /// Makes the changes of a step, all at once.
    func apply(_ step: Step, to kernel: inout SimulatedKernel) throws(SimulationError) {
        switch step.action {
        case .pull(let name): try kernel.setCarrier(name, false)
        case .plug(let name): try kernel.setCarrier(name, true)
        case .down(let name): try kernel.setUp(name, false)
        case .up(let name):
            try kernel.setUp(name, true)
            // Like a network manager: the kernel does not restore routes through gateways.
            if name == step.defaultLink { try addDefaultRoutes(through: name, to: &kernel) }
        case .defaultRoute(let name):
            for link in links where link.name == step.defaultLink {
                // The kernel may have removed them already.
                for gateway in link.gateways { try? kernel.removeRoute(to: "default", via: gateway, dev: link.name) }
            }
            if let name { try addDefaultRoutes(through: name, to: &kernel) }
        case .suspend, .retryNow: break
        }
    }

    private func addDefaultRoutes(through name: String, to kernel: inout SimulatedKernel) throws(SimulationError) {
        for link in links where link.name == name {
            for gateway in link.gateways { try kernel.replaceRoute(to: "default", via: gateway, dev: name) }
        }
    }

    /// Returns the time at which something happens that is scripted for `time`: the end of a suspension that has begun.
    func effectiveTime(_ time: Duration) -> Duration {
        suspensions.reduce(time) { time, suspension in
            suspension.from <= time && time < suspension.until ? suspension.until : time
        }
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
