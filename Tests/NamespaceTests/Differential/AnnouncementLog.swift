import Reachability
import Synchronization
import TestSupport

/// The events of a network, as far as the kernel and its model can be compared.
final class AnnouncementLog: Sendable {
    private let noted = Mutex<Set<String>>([])

    /// The distinct events: repetitions do not matter.
    var texts: Set<String> { noted.withLock(\.self) }

    func clear() { noted.withLock { $0 = [] } }

    func note(_ batch: NetworkEventBatch) { noted.withLock { $0.formUnion(batch.events.compactMap(Self.text)) } }

    /// Returns the difference between the model's events and the kernel's; `nil` if they agree.
    ///
    /// The kernel may announce links and NETCONF more often than needed, and late.
    func difference(from kernel: AnnouncementLog) -> String? {
        let (real, modelled) = (kernel.texts, texts)
        let unforeseen = real.subtracting(modelled).filter { !$0.hasPrefix("link ") && !$0.hasPrefix("netconf of ") }.sorted()
        let missing = modelled.subtracting(real).sorted()
        guard !unforeseen.isEmpty || !missing.isEmpty else { return nil }
        return "the kernel announced \(unforeseen), the model \(missing), and both \(real.intersection(modelled).sorted())"
    }

    private static func text(_ event: NetworkEvent) -> String? {
        switch event.payload {
        case .link(let link): "link \(link.index)"
        case .linkRemoved(let index): "no link \(index)"
        case .address(let address, let index):
            "address \(address.address)/\(address.prefixLength) on \(index)\(address.isTentative ? " tentative" : "")"
                + (address.hasFailedDetection ? " failed" : "")
        case .addressRemoved(let address, let index): "no address \(address.address)/\(address.prefixLength) on \(index)"
        case .route(let change): text(change)
        case .rule(let isRemoval): isRemoval ? "no rule" : "rule"
        case .nexthop(let id, let isRemoval): isRemoval ? "no nexthop \(id)" : "nexthop \(id)"
        case .netconf(let index): "netconf of \(index.map { "\($0)" } ?? "all")"
        case .overrun: "overrun"
        case .resumed, .host, .resolverChanged, .neighbour: nil
        }
    }

    private static func text(_ change: RouteChange) -> String? {
        // The model has no local table, and no route to multicast addresses.
        let prefix = change.destination
        guard prefix.length < prefix.address.family.bitWidth, !prefix.address.isMulticast else { return nil }
        return (change.isRemoval ? "no " : "")
            + "route \(prefix.address)/\(prefix.length) via \(change.gateway?.description ?? "-") "
            + "dev \(change.interface.map { "\($0)" } ?? "-")"
    }
}

/// A source that logs its events.
struct AnnouncementTap<Network: NetworkSource>: SourceWrapper {
    let network: Network
    let log: AnnouncementLog

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await network.run { [log] batch in
            log.note(batch)
            return deliver(batch)
        }
    }
}
