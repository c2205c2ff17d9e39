#if MQTT
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport

@testable import ReachableFleet

/// Members of the test's own process at a real broker, with a network that is always there.
struct BrokerSession: Sendable {
    let broker: TestBroker
    let site: FleetName
    let monitor: ReachabilityMonitor

    /// Runs a body beside an observer whose picture is current.
    static func run(
        _ broker: TestBroker, _ body: @Sendable (BrokerSession, FleetMember) async throws -> Void
    ) async throws {
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let session = BrokerSession(broker: broker, site: TestMember.name("site"), monitor: monitor)
        let monitoring = Task { try await monitor.run() }
        let observer = try session.member(nil)
        let running = Task { await observer.run() }
        await observer.until { $0.isCurrent }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(session, observer))
        } catch {
            result = .failure(error)
        }
        running.cancel()
        await running.value
        monitoring.cancel()
        try result.get()
    }

    func member(_ node: FleetName?, transport: (any FleetTransport)? = nil) throws -> FleetMember {
        try FleetMember(
            node: node, site: site, transport: transport ?? FleetMember.transport(FleetBroker(broker.url)), scope: nil,
            monitor: monitor, bus: RetryBus(monitor, clock: ContinuousClock()), configuration: .init())
    }

    /// Makes a raw connection, and returns it when the broker has accepted it.
    func client(_ identifier: String, will: FleetMessage? = nil) async throws -> any FleetLink {
        let (events, news) = AsyncStream.makeStream(of: FleetLinkEvent.self)
        let transport = FleetMember.transport(try FleetBroker(broker.url))
        let connection = FleetConnection(clientID: identifier, will: will, keepAlive: .seconds(20))
        let link = transport.link(connection) { news.yield($0) }
        link.open()
        for await event in events {
            if case .connected = event { return link }
            if case .ended(let failure) = event { throw failure ?? FleetError(.connectionLost, subject: "ended") }
        }
        throw CancellationError()
    }
}

extension FleetLink {
    /// Publishes a message, and returns when the broker has it.
    func publish(_ message: FleetMessage) async -> Bool {
        await withCheckedContinuation { continuation in publish(message) { continuation.resume(returning: $0) } }
    }
}

extension FleetMember {
    /// Waits until the picture meets a condition; returns at once if it does.
    func until(_ isMet: (FleetPicture) -> Bool) async {
        for await _ in changes { if isMet(nodes) { return } }
    }

    func until(_ name: String, is state: FleetNode.State) async {
        await until { picture in picture.nodes.contains { $0.name.description == name && $0.state == state } }
    }

    func node(_ name: String) -> FleetNode? { nodes.nodes.first { $0.name.description == name } }
}

/// Connections that the member gives up and the broker keeps: the line is dead, and neither side has noticed.
final class DeafTransport: FleetTransport {
    private struct Line {
        var link: any FleetLink
        var receive: @Sendable (FleetLinkEvent) -> Void
        var isDeaf = Gate()
    }

    /// True when the events of a line are dropped.
    private final class Gate: Sendable {
        let isShut = Atomic(false)
    }

    private let base: any FleetTransport
    private let lines = Recorder<Line>()

    init(_ base: any FleetTransport) { self.base = base }

    var place: String { base.place }

    func link(_ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) -> any FleetLink {
        let gate = Gate()
        let link = base.link(connection) { event in if !gate.isShut.load(ordering: .acquiring) { receive(event) } }
        lines.record(Line(link: link, receive: receive, isDeaf: gate))
        return link
    }

    /// Has the member believe that its line is dead.
    func abandon() {
        guard let line = lines.value.last else { return }
        line.isDeaf.isShut.store(true, ordering: .releasing)
        line.receive(.ended(FleetError(.connectionLost, subject: "the line is dead")))
    }
}
#endif
