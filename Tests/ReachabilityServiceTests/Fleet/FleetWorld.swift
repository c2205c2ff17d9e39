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

    /// Starts work that time may pass for; returns its result, `nil` before its end.
    func start<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Rendezvous<Value?> {
        let result = Rendezvous<Value?>(nil)
        world.start {
            let value = await body()
            result.change { $0 = value }
        }
        return result
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
