/// Something that happens to a network which was reachable by a default route.
struct Action: Sendable {
    var name: String
    /// `true` if the default route uses a nexthop object.
    var usesNexthop = false
    var perform: @Sendable (Network) throws -> Void

    private init(_ name: String, usesNexthop: Bool = false, _ perform: @escaping @Sendable (Network) throws -> Void) {
        (self.name, self.usesNexthop, self.perform) = (name, usesNexthop, perform)
    }

    /// Sets the default route up.
    func prepare(_ network: Network) throws {
        if usesNexthop {
            try network.run("ip nexthop add id 7 via \(Network.gateway) dev \(Network.near)", "ip route add default nhid 7")
        } else {
            try network.run("ip route add default via \(Network.gateway) dev \(Network.near) metric 100")
        }
    }

    /// The sixteen.
    static let all = [
        Action("nothing") { _ in },
        Action("the route is deleted") { try $0.run("ip route del default") },
        Action("the link is shut down") { try $0.run("ip link set \(Network.near) down") },
        Action("the carrier is lost") { try $0.runThere("ip link set \(Network.far) down") },
        Action("the last address is deleted") { try $0.run("ip addr del 192.0.2.10/24 dev \(Network.near)") },
        Action("the interface is deleted") { try $0.run("ip link del \(Network.near)") },
        Action("the other end is deleted") { try $0.runThere("ip link del \(Network.far)") },
        Action("the interface moves to another namespace") {
            try $0.run("ip link set \(Network.near) netns \($0.neighbourName)")
        },
        Action("the nexthop object is deleted", usesNexthop: true) { try $0.run("ip nexthop del id 7") },
        Action("the link below a nexthop object is shut down", usesNexthop: true) {
            try $0.run("ip link set \(Network.near) down")
        },
        Action("the carrier below a nexthop object is lost", usesNexthop: true) {
            try $0.runThere("ip link set \(Network.far) down")
        },
        Action("the route is replaced, then deleted") {
            try $0.run("ip route replace default via 192.0.2.2 dev \(Network.near) metric 100", "ip route del default metric 100")
        },
        Action("a rule says unreachable") { try $0.run("ip rule add unreachable priority 10") },
        Action("a better default is a blackhole") { try $0.run("ip route add blackhole default metric 1") },
        Action("only halves of a default are left") {
            try $0.run(
                "ip route add 0.0.0.0/1 via \(Network.gateway)", "ip route add 128.0.0.0/1 via \(Network.gateway)",
                "ip route del default")
        },
        Action("the route goes and comes 50 times") { network in
            for _ in 0..<50 {
                try network.run(
                    "ip route del default", "ip route add default via \(Network.gateway) dev \(Network.near) metric 100")
            }
        },
    ]
}
