import Testing

@testable import Reachability

/// The sort of device of a link message.
@Suite struct InterfaceKindTests {
    private func kind(_ hardware: UInt16, _ kind: String? = nil) -> NetworkInterface.Kind? { interface(hardware, kind)?.kind }

    /// A link message as the kernel writes it: RTM_NEWLINK with a hardware type, a name, and a kind if it is no hardware.
    private func interface(
        _ hardware: UInt16, _ kind: String? = nil, flags: UInt32 = 0x1_1043, state: UInt8 = 6, mode: UInt8? = nil,
        lower: UInt32? = nil
    ) -> NetworkInterface? {
        func attribute(_ type: UInt16, _ payload: [UInt8]) -> [UInt8] {
            RouteFrame.bytes(UInt16(4 + payload.count)) + RouteFrame.bytes(type) + payload
                + [UInt8](repeating: 0, count: -payload.count & 3)
        }
        func text(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }
        // ifinfomsg: family, hardware type, index, flags, changed flags. IFLA_IFNAME, IFLA_OPERSTATE and IFLA_CARRIER_CHANGES;
        // IFLA_LINKMODE, IFLA_LINK; IFLA_LINKINFO with IFLA_INFO_KIND.
        var body: [UInt8] = [0, 0] + RouteFrame.bytes(hardware) + RouteFrame.bytes(Int32(7)) + RouteFrame.bytes(flags)
        body += RouteFrame.bytes(UInt32.max) + attribute(3, text("x0")) + attribute(16, [state]) + attribute(35, [1, 0, 0, 0])
        if let mode { body += attribute(17, [mode]) }
        if let lower { body += attribute(5, RouteFrame.bytes(lower)) }
        if let kind { body += attribute(18, attribute(1, text(kind))) }
        let header = RouteFrame.bytes(UInt32(16 + body.count)) + RouteFrame.bytes(UInt16(16)) + [UInt8](repeating: 0, count: 10)
        var batch = NetworkEventBatch(now: .zero, wallTime: .zero)
        (header + body).withUnsafeBytes { batch.append(datagram: $0) }
        guard case .link(let interface)? = batch.events.first?.payload else { return nil }
        return interface
    }

    /// Hardware types are those of linux/if_arp.h.
    ///
    /// This machine has no such device: Ethernet may be Wi-Fi.
    @Test(
        arguments: [
            (1, "other"), (772, "loopback"), (512, "tunnel"), (0xfffe, "tunnel"), (519, "tunnel"), (32, "other"), (824, "other"),
            (801, "other"), (65535, "other"),
        ] as [(UInt16, String)])
    func hardwareIsRecognizedByItsType(type: UInt16, expected: String) {
        #expect(kind(type)?.rawValue == expected)
    }

    @Test(arguments: [
        "tun", "wireguard", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "ip6tnl", "sit", "vti", "vti6", "xfrm", "ppp",
        "erspan", "geneve", "vxlan",
    ])
    func tunnelsAreRecognizedByTheirKind(kind: String) {
        for hardware: UInt16 in [1, 0xfffe, 768, 776] { #expect(self.kind(hardware, kind) == .tunnel, "\(hardware)") }
    }

    @Test(arguments: ["veth", "bridge", "bond", "vlan", "macvlan", "dummy", "team", "vrf", "something new"])
    func softwareInterfacesAreVirtual(kind: String) {
        for hardware: UInt16 in [1, 0xfffe] { #expect(self.kind(hardware, kind) == .virtual, "\(hardware)") }
    }

    @Test func modemsAreCellular() {
        #expect(kind(519, "wwan") == .cellular && kind(1, "wwan") == .cellular)
    }

    /// A wire passes packets whatever its link mode; a wireless card, which Ethernet may be, waits for its program in mode dormant.
    @Test func dormantLinkIsHeldByItsDriverOrItsProgram() {
        let (up, held): (UInt32, UInt32) = (0x1_1043, 0x3_1043)
        func isUsable(_ kind: String?, _ flags: UInt32, mode: UInt8?, lower: UInt32? = nil) -> Bool? {
            interface(1, kind, flags: flags, state: 5, mode: mode, lower: lower)?.isUsable
        }
        #expect(isUsable(nil, up, mode: 1) == false && isUsable(nil, up, mode: nil) == false)
        #expect(isUsable(nil, up, mode: 0) == true, "the state is left from another mode")
        #expect(isUsable(nil, held, mode: 0) == false)
        for mode: UInt8 in [0, 1] {
            #expect(isUsable("veth", up, mode: mode) == true && isUsable("veth", held, mode: mode) == false)
            #expect(isUsable("macvlan", held, mode: mode, lower: 3) == true, "judged below")
            #expect(isUsable("macvlan", held, mode: mode) == false, "the device below is elsewhere")
        }
        #expect(interface(1, "veth", state: 4, mode: 0)?.isUsable == false, "under test")
    }

    @Test func loopbackTypePrecedesTheKind() { #expect(kind(772, "dummy") == .loopback) }
}
