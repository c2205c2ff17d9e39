import Foundation
import Logging
import Reachability
import ReachableFleet
import ServiceLifecycle
import UnixSignals

/// The machines of a home, which meet at a broker.
struct Home {
    var broker: FleetBroker

    /// Returns a member.
    ///
    /// - Parameters:
    ///   - name: The name of this machine; `nil` for one that only looks.
    ///   - monitor: The monitor of this machine's network.
    func member(_ name: FleetName?, _ monitor: ReachabilityMonitor) throws -> FleetMember {
        var configuration = FleetMember.Configuration()
        // A NAS is there although the provider is not: the path to the broker counts, not the one to the internet.
        configuration.scope = .host(broker.host)
        configuration.logger = Logger(label: "fleet")
        return try FleetMember(
            node: name, site: FleetName("home"), broker: broker, monitor: monitor, configuration: configuration)
    }

    /// Tells the other machines that this one is there, until a signal ends the process.
    func announce(_ name: FleetName) async throws {
        let monitor = ReachabilityMonitor()
        let group = ServiceGroup(
            services: [monitor, try member(name, monitor)], gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "nas-backup"))
        try await group.run()
    }
}

/// Writes a line at once, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
