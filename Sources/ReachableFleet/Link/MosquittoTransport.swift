#if MQTT
internal import Synchronization

/// Connections to one broker with libmosquitto.
///
/// Safe to use from any thread.
final class MosquittoTransport: FleetTransport {
    /// The addresses that an attempt may use.
    ///
    /// libmosquitto takes the first address that does not fail at once. Where packets to it vanish, the next attempt uses others.
    enum Family: UInt8, AtomicRepresentable {
        case any, ipv4, ipv6

        var next: Family { Family(rawValue: rawValue + 1) ?? .any }
    }

    let broker: FleetBroker
    private let state = Atomic(Family.any)

    init(_ broker: FleetBroker) { self.broker = broker }

    var place: String { broker.description }

    var family: Family { state.load(ordering: .relaxed) }

    func link(_ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) -> any FleetLink {
        MosquittoLink(self, connection, receive)
    }

    /// Uses other addresses next time.
    func changeFamily(from family: Family) { state.store(family.next, ordering: .relaxed) }
}

/// One connection, as the member sees it: all calls are commands for the loop's thread.
///
/// Safe to use from any thread.
final class MosquittoLink: FleetLink {
    let transport: MosquittoTransport
    let connection: FleetConnection
    let receive: @Sendable (FleetLinkEvent) -> Void
    private let ended = Atomic(false)

    init(_ transport: MosquittoTransport, _ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) {
        (self.transport, self.connection, self.receive) = (transport, connection, receive)
    }

    /// True after the last event.
    var hasEnded: Bool { ended.load(ordering: .acquiring) }

    /// Delivers the last event; only the loop's thread calls it.
    func end(_ failure: FleetError?) {
        guard !ended.exchange(true, ordering: .acquiringAndReleasing) else { return }
        receive(.ended(failure))
    }

    func open() {
        guard MosquittoLoop.shared.send(.open(self)) else {
            return end(FleetError(.unreachable, subject: "this machine has no thread or descriptor left; next: raise its limits"))
        }
    }

    func subscribe(_ filters: [String]) { MosquittoLoop.shared.send(.subscribe(self, filters)) }

    func publish(_ message: FleetMessage, _ answer: (@Sendable (Bool) -> Void)?) {
        if !MosquittoLoop.shared.send(.publish(self, message, answer)) { answer?(false) }
    }

    func disconnect() { MosquittoLoop.shared.send(.disconnect(self)) }

    func close() { MosquittoLoop.shared.send(.close(self)) }
}
#endif
