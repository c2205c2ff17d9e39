import Reachability
import ReachabilityTesting
import Testing

/// The kernel as a source keeps the requirements of `NetworkSource`.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct ConformanceTests {
    @Test(arguments: [true, false])
    func kernelConformsToNetworkSource(usesFilter: Bool) async throws {
        let conformance = NetworkSourceConformance {
            let network = try await CabledNetwork()
            // Automatic addresses would be changes outside the test.
            for name in ["all", "default", "cable0", "cable1"] {
                try await network.near.sysctl("net.ipv6.conf.\(name).addr_gen_mode", "1")
            }
            try await network.addIPv4()
            try await network.addIPv6()
            let near = network.near
            return .init(
                KernelNetwork(networkNamespace: near.path, usesFilter: usesFilter),
                changes: [
                    { try await near.ip("route del default metric 100") },
                    { try await network.addIPv4(1, metric: 200) },
                    { try await near.ip("rule add priority 10 prohibit") },
                    { try await near.ip("addr add 203.0.113.10/24 dev cable1") },
                    { try await near.ip("link set cable1 name patch1") },
                    { try await network.pull() },
                    { try await near.ip("link set cable0 down") },
                    { try await near.ip("link del cable0") },
                ])
        }
        try await conformance.check()
    }
}
