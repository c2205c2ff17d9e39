import Foundation
import Reachability

/// What `ip route get`, `ip link` and `ip address` imply, computed without the code under test.
struct Oracle {
    private let namespace: Namespace

    init(_ namespace: Namespace) { self.namespace = namespace }

    private struct Link: Decodable {
        struct Address: Decodable {
            var local: String?
            var tentative: Bool?
            var dadfailed: Bool?
        }

        var ifname: String?
        var flags: [String]?
        var operstate: String?
        var addresses: [Address]?

        enum CodingKeys: String, CodingKey {
            case ifname
            case flags
            case operstate
            case addresses = "addr_info"
        }
    }

    private struct Route: Decodable {
        var dev: String?
        var prefsrc: String?
        var type: String?
    }

    /// Whether the kernel would send to a scope: for some family, to all its destinations.
    func verdict(_ scope: Scope) async throws -> Bool {
        let links = try await links()
        if case .address(let address) = scope.destination { return try await reaches(address.description, scope, links) }
        for representatives in [["198.41.0.4", "1.1.1.1"], ["2001:503:ba3e::2:30", "2801:1b8:10::b"]] {
            var isSatisfied = true
            for address in representatives where isSatisfied {
                isSatisfied = try await reaches(address, scope, links)
            }
            if isSatisfied { return true }
        }
        return false
    }

    private func reaches(_ address: String, _ scope: Scope, _ links: [Link]) async throws -> Bool {
        var arguments = ["route", "get", address]
        if let mark = scope.mark { arguments += ["mark", "\(mark)"] }
        if let uid = scope.uid { arguments += ["uid", "\(uid)"] }
        if let interface = scope.interface { arguments += ["oif", interface] }
        let result = try await Child.run(["ip", "-j", "-n", namespace.name] + arguments, allowFailure: true)
        guard result.code == 0, let route = try JSONDecoder().decode([Route].self, from: Data(result.output.utf8)).first,
            let device = route.dev, let source = route.prefsrc, route.type == nil || route.type == "unicast",
            let link = links.first(where: { $0.ifname == device }), let flags = link.flags
        else { return false }
        guard flags.contains("UP"), flags.contains("LOWER_UP"), ["UP", "UNKNOWN"].contains(link.operstate), device != "lo" else {
            return false
        }
        guard !source.hasPrefix("fe80:"), !source.hasPrefix("169.254."), source != "::1" else { return false }
        return links.contains { link in
            (link.addresses ?? []).contains { $0.local == source && $0.tentative != true && $0.dadfailed != true }
        }
    }

    private func links() async throws -> [Link] {
        let text = try await namespace.query("address", "show") ?? "[]"
        return try JSONDecoder().decode([Link].self, from: Data(text.utf8))
    }
}
