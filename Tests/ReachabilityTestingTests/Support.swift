import Reachability
import ReachabilityTesting
import Testing

extension SimulatedNetwork {
    /// Runs the network with `deliver` while `body` runs, and waits for the end of the run.
    func running(
        _ deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?, _ body: (SimulatedNetwork) async throws -> Void
    ) async throws {
        let run = Task { try await self.run(deliver: deliver) }
        try await untilRunning()
        do {
            try await body(self)
        } catch {
            run.cancel()
            throw error
        }
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
    }
}

extension NetworkEvent {
    /// The event in a short form like that of `ip monitor`, with interface indices.
    var text: String {
        switch payload {
        case .link(let link):
            "link \(link.name)\(link.isUp ? " up" : "")\(link.hasCarrier ? " carrier" : "") \(link.operationalState)"
        case .linkRemoved(let index): "-link \(index)"
        case .address(let address, let index):
            "addr \(address.address)/\(address.prefixLength) if\(index)\(address.isTentative ? " tentative" : "")"
                + (address.hasFailedDetection ? " failed" : "")
        case .addressRemoved(let address, let index): "-addr \(address.address)/\(address.prefixLength) if\(index)"
        case .route(let change):
            "\(change.isRemoval ? "-" : "")route\(change.destination.address.family == .ipv6 ? "6" : "") \(change.destination)"
                + (change.gateway.map { " via \($0)" } ?? "") + (change.interface.map { " if\($0)" } ?? "")
        case .rule(let isRemoval): isRemoval ? "-rule" : "rule"
        case .nexthop(let id, let isRemoval): (isRemoval ? "-" : "") + "nexthop \(id)"
        case .netconf(let index): "netconf " + (index.map { "if\($0)" } ?? "all")
        default: "\(payload)"
        }
    }
}

extension SimulatedKernel {
    /// Makes a change and returns its announcements.
    mutating func announced(_ change: (inout SimulatedKernel) throws -> Void) throws -> [String] {
        _ = takeEvents()
        try change(&self)
        return takeEvents().map(\.text)
    }

    /// Expects each change to be refused without any effect.
    mutating func expectRefusals(_ changes: [(inout SimulatedKernel) throws -> Void]) {
        let before = self
        _ = takeEvents()
        for (number, change) in changes.enumerated() {
            #expect(throws: SimulationError.self, "change \(number)") { try change(&self) }
        }
        #expect(interfaces == before.interfaces && routes == before.routes)
        #expect(rules == before.rules && nexthops == before.nexthops && takeEvents().isEmpty)
    }

    /// The routes in a short form like that of `ip route`, with interface names.
    var routeTexts: [String] {
        routes.map { route in
            let name = interfaces.first { $0.index == route.interface }.map { " dev \($0.name)" } ?? ""
            let type = route.type == .unicast ? "" : "\(route.type) "
            return type + "\(route.destination)" + (route.gateway.map { " via \($0)" } ?? "") + name
        }
    }

    /// Returns the answer to a lookup in a short form like that of `ip route get`.
    func get(_ destination: String, dev name: String? = nil, match: Bool = false) throws -> String {
        let address = try #require(IPAddress(destination))
        let index = try name.map { name in try #require(interfaces.first { $0.name == name }).index }
        switch route(to: RouteQuery(to: address, interface: index, fibMatch: match)) {
        case .refused(let errno): return "errno \(errno)"
        case .route(let route):
            let name = interfaces.first { $0.index == route.interface }?.name ?? "?"
            return (route.isLocal ? "local " : "") + (route.gateway.map { "via \($0) " } ?? "") + "dev \(name)"
                + (route.source.map { " src \($0)" } ?? "") + (route.prefixLength.map { " len \($0)" } ?? "")
                + (route.metric.map { " metric \($0)" } ?? "")
        }
    }

    /// Returns all possible answers to a lookup as interface names or errors.
    func interfacesTo(_ destination: String) throws -> [String] {
        let address = try #require(IPAddress(destination))
        return answers(to: RouteQuery(to: address)).map { answer in
            switch answer {
            case .refused(let errno): "errno \(errno)"
            case .route(let route): interfaces.first { $0.index == route.interface }?.name ?? "?"
            }
        }
    }

    /// Makes two cables with both families.
    static func cabled() throws -> SimulatedKernel {
        var kernel = SimulatedKernel()
        for (name, net) in [("va", 9), ("va2", 8)] {
            try kernel.addLink(name, kind: .virtual)
            try kernel.addAddress(name, "10.\(net).0.1/24")
            try kernel.addAddress(name, "2001:db8:\(net)::1/64")
        }
        _ = kernel.takeEvents()
        return kernel
    }

    /// Makes the network of the captures: two cables with both families, and defaults through the first.
    static func captured() throws -> SimulatedKernel {
        var kernel = try cabled()
        try kernel.addRoute(to: "default", via: "10.9.0.2", metric: 100)
        try kernel.addRoute(to: "192.0.2.0/24", via: "10.9.0.2")
        try kernel.addRoute(to: "2001:db8:aa::/48", via: "2001:db8:9::2")
        try kernel.addRoute(to: "default", via: "2001:db8:9::2", metric: 100)
        _ = kernel.takeEvents()
        return kernel
    }
}
