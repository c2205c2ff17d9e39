import Reachability
import ReachabilityTesting
import Testing

/// A machine with three cables in a network namespace, and the model of the same.
final class TwinNetworks: Sendable {
    /// Why they cannot be compared any further.
    struct Divergence: Error, CustomStringConvertible {
        var description: String
    }

    /// How long the kernel may take: it may put off the announcement of a carrier for a second.
    static let patience: Duration = .seconds(4)

    let near: Namespace
    let far: Namespace
    let kernel: KernelNetwork
    let model: SimulatedNetwork
    /// What the model announced.
    let log = AnnouncementLog()

    init() async throws {
        near = try await Namespace()
        far = try await Namespace()
        kernel = KernelNetwork(networkNamespace: near.path)
        // Link-local addresses as on a real machine, but at once; and of a prefix's addresses the later ones go with the first.
        for setting in ["ipv6.conf.all.accept_dad=0", "ipv6.conf.default.accept_dad=0", "ipv4.conf.all.promote_secondaries=0"] {
            let parts = setting.split(separator: "=")
            try await near.sysctl("net.\(parts[0])", String(parts[1]))
        }
        var modelled = SimulatedKernel()
        modelled.detectionTime = .zero
        try modelled.setSysctl("net.ipv6.conf.all.addr_gen_mode", 0)
        model = SimulatedNetwork(modelled)
        for (number, name) in OperationGenerator.links.enumerated() {
            try await apply(.addLink(name, index: OperationGenerator.firstIndex + UInt32(number)))
        }
    }

    /// Makes a change to both.
    func apply(_ operation: Operation) async throws {
        var result: (code: Int32, output: String) = (0, "")
        for command in operation.commands(near: near.name, far: far.name) where result.code == 0 {
            result = try await Child.run(command, allowFailure: true)
        }
        do {
            try operation.apply(to: model)
        } catch {
            guard result.code != 0 else { throw Divergence(description: "the kernel accepts what the model does not: \(error)") }
            return
        }
        guard result.code == 0 else { throw Divergence(description: "the kernel refuses: \(result.output)") }
    }

    /// How the links and addresses differ; `nil` if they do not.
    func differenceOfInterfaces() throws -> String? {
        let (real, modelled) = (try kernel.interfaces().map(Self.text).sorted(), try model.interfaces().map(Self.text).sorted())
        guard real != modelled else { return nil }
        return zip(real, modelled).filter { $0 != $1 }.map { "kernel: \($0)\nmodel:  \($1)" }.joined(separator: "\n")
            + (real.count == modelled.count ? "" : "\nkernel: \(real)\nmodel:  \(modelled)")
    }

    private static func text(_ interface: NetworkInterface) -> String {
        let addresses = interface.addresses.map { held in
            "\(held.address)/\(held.prefixLength)" + (held.isTentative ? " tentative" : "")
                + (held.hasFailedDetection ? " failed" : "")
        }
        return "\(interface.index) \(interface.name)\(interface.isUp ? " up" : "")\(interface.hasCarrier ? " carrier" : "") "
            + "\(interface.operationalState) " + addresses.sorted().joined(separator: ", ")
    }
}
