import CommandKit
import Reachability
import ReachabilityTesting
import ReachableFleet
import Synchronization

@testable import reachability_service

/// A fleet of a test, and visits to it; the commands run the monitor.
struct FleetWorld {
    let world = TestWorld()
    let fleet: SimulatedFleet
    let nas: FleetName

    init() throws {
        fleet = SimulatedFleet(world)
        nas = try FleetName("nas")
    }

    func visit(say: (@Sendable (String) -> Void)? = nil, saysAll: Bool = true) throws -> FleetVisit {
        try FleetVisit(monitor: world.monitor, broker: "the broker", scope: nil, say: say, saysAll: saysAll) {
            configuration throws(CommandFailure) in
            do { return try fleet.member(nil, configuration: configuration) } catch { throw CommandFailure(.usage, "\(error)") }
        }
    }

    /// Starts work that time may pass for.
    func start<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Started<Value> {
        let started = Started<Value>()
        world.start {
            let value = await body()
            started.value.withLock { $0 = value }
        }
        return started
    }

    /// The result of started work; `nil` before its end.
    final class Started<Value: Sendable>: Sendable {
        let value = Mutex<Value?>(nil)
        var result: Value? { value.withLock(\.self) }
    }
}

/// A broker that refuses each connection.
struct RefusingTransport: FleetTransport {
    let failure: FleetError
    let place = "the broker"

    func link(_ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) -> any FleetLink {
        Link(failure: failure, receive: receive)
    }

    private struct Link: FleetLink {
        let failure: FleetError
        let receive: @Sendable (FleetLinkEvent) -> Void

        func open() { receive(.ended(failure)) }
        func subscribe(_ filters: [String]) {}
        func publish(_ message: FleetMessage, _ answer: (@Sendable (Bool) -> Void)?) { answer?(false) }
        func disconnect() {}
        func close() {}
    }
}
