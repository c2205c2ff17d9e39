#if MQTT
internal import CLibMosquitto
internal import DequeModule
internal import Glibc
internal import Reachability
internal import Synchronization

/// The threads that open connections: they read files and look up names, which blocks.
///
/// At most eight at a time; each ends when nothing waits. Safe to use from any thread.
final class MosquittoOpener: Sendable {
    static let shared = MosquittoOpener()

    private struct State {
        var links: Deque<MosquittoLink> = []
        var threads = 0
    }

    private static let limit = 8
    private let state = Mutex(State())

    /// Opens a connection; the loop gets the result.
    func open(_ link: MosquittoLink) {
        let starts = state.withLock { state in
            state.links.append(link)
            guard state.threads < Self.limit else { return false }
            state.threads += 1
            return true
        }
        guard starts, SystemThread.start(named: "fleet-opener", blocksSignals: true, { [self] in work() }) != 0 else { return }
        let links = state.withLock { state -> Deque<MosquittoLink> in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            defer { state.links = [] }
            return state.links
        }
        let failure = FleetError(.unreachable, subject: "this machine has no thread left; next: raise its limits")
        for link in links { MosquittoLoop.shared.send(.opened(link, .failure(failure))) }
    }

    private func work() {
        while let link = next() {
            // Its time has passed, or its task was cancelled.
            if link.hasEnded { continue }
            MosquittoLoop.shared.send(.opened(link, Self.client(link)))
        }
    }

    private func next() -> MosquittoLink? {
        state.withLock { state in
            if let link = state.links.popFirst() { return link }
            state.threads -= 1
            return nil
        }
    }

    private static func client(_ link: MosquittoLink) -> Result<MosquittoClient, FleetError> {
        let (transport, connection) = (link.transport, link.connection)
        guard let client = MosquittoClient(transport.broker, clientID: connection.clientID) else {
            return .failure(FleetError(.unreachable, subject: "there is no memory for a connection; next: end other programs"))
        }
        do throws(FleetError) {
            try client.prepare(will: connection.will)
        } catch {
            return .failure(error)
        }
        // It takes whole seconds, from 5 on.
        let seconds = Int32(clamping: connection.keepAlive.attoseconds / 1_000_000_000_000_000_000)
        let (keepAlive, family) = (max(5, min(seconds, 65_535)), transport.family)
        var (result, number) = client.connect(keepAlive: keepAlive, family)
        if result > 0, family != .any {
            // The host may have no address of that family.
            transport.changeFamily(from: .ipv6)
            (result, number) = client.connect(keepAlive: keepAlive, .any)
        }
        return result > 0 ? .failure(client.refusal(result, number)) : .success(client)
    }
}
#endif
