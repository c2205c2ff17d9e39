import Reachability
import ReachabilityTesting
import Testing

/// A machine with three cables in a network namespace, and its model.
final class TwinNetworks: Sendable {
    /// A difference that ends the comparison.
    struct Divergence: Error, CustomStringConvertible {
        var description: String
    }

    /// The time limit for the kernel: it may delay a carrier event for 1 s, and detects duplicate addresses in seconds.
    static let patience: Duration = .seconds(60)

    let near: Namespace
    let far: Namespace
    let kernel: KernelNetwork
    let model: SimulatedNetwork
    /// The model's events.
    let log = AnnouncementLog()

    init() async throws {
        near = try await Namespace()
        far = try await Namespace()
        kernel = KernelNetwork(networkNamespace: near.path)
        // Link-local addresses without detection; secondary addresses go with their primary one.
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

    /// Applies a change to both.
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

    /// Returns the difference between the links and addresses; `nil` if they agree.
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

/// A repeated check: after every event of the kernel, and every 5 ms.
final class Pulse: Sendable {
    private static let interval: Duration = .milliseconds(5)

    /// The kernel's events.
    let log = AnnouncementLog()
    private let source: KernelNetwork
    private let beats: AsyncStream<Void>
    private let beat: AsyncStream<Void>.Continuation

    init(_ source: KernelNetwork) {
        self.source = source
        (beats, beat) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Runs the source while the body runs.
    func running(_ body: () async throws -> Void) async throws {
        let run = Task { [source, beat, log] in
            try await source.run { batch in
                log.note(batch)
                beat.yield()
                return Self.interval
            }
        }
        defer { run.cancel() }
        // No event is missed after the first beat.
        for await _ in beats { break }
        try await body()
    }

    /// Waits until there is no difference; throws the last one after the time limit.
    func settle(_ difference: () async throws -> String?) async throws {
        let clock = ContinuousClock()
        let deadline = clock.now + TwinNetworks.patience
        guard var last = try await difference() else { return }
        for await _ in beats {
            guard let next = try await difference() else { return }
            last = next
            guard clock.now < deadline else { break }
        }
        throw TwinNetworks.Divergence(description: last)
    }
}
