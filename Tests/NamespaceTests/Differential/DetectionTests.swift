import Reachability
import ReachabilityTesting
import Testing

/// Duplicate address detection in the kernel and in its model.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct DetectionTests {
    @Test func modelMatchesKernelDuringAddressDetection() async throws {
        let twins = try await TwinNetworks()
        for setting in ["accept_dad=1", "dad_transmits=2", "addr_gen_mode=1"] {
            let parts = setting.split(separator: "=")
            try await twins.near.sysctl("net.ipv6.conf.cable0.\(parts[0])", String(parts[1]))
        }
        try twins.model.changeSilently { kernel throws(SimulationError) in
            kernel.detectionTime = nil
            try kernel.setSysctl("net.ipv6.conf.all.addr_gen_mode", 1)
        }
        let pulse = Pulse(twins.kernel)
        try await pulse.running {
            try await twins.watching { monitors in
                func agree(after change: () async throws -> Void) async throws {
                    pulse.log.clear()
                    twins.log.clear()
                    try await change()
                    try await pulse.settle {
                        try twins.difference(monitors) ?? twins.log.difference(from: pulse.log)
                    }
                }
                try await agree { try await twins.apply(.setUp("cable0", true)) }
                try await agree {
                    try await twins.near.ip(
                        """
                        address add 2001:db8::10/64 dev cable0
                        route add ::/0 via fe80::f0 dev cable0 onlink
                        """)
                    try twins.model.addAddress("cable0", "2001:db8::10/64", isTentative: true)
                    try twins.model.addRoute(to: "::/0", via: "fe80::f0", dev: "cable0")
                }
                #expect(monitors.kernel.path.offlineReason == .addressTentative)
                try await agree { try twins.model.finishDetection(of: "2001:db8::10", on: "cable0") }
                #expect(monitors.kernel.path.isSatisfied)
                try await agree {
                    // The other end has the address already.
                    try await twins.far.ip("address add 2001:db8::20/64 dev far-cable0 nodad")
                    try await twins.near.ip("address add 2001:db8::20/64 dev cable0")
                    try twins.model.addAddress("cable0", "2001:db8::20/64", isTentative: true)
                    try twins.model.finishDetection(of: "2001:db8::20", on: "cable0", hasFailed: true)
                }
            }
        }
    }
}
