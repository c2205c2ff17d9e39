import Foundation
import Logging
import Reachability
import ReachableFleet

/// The kiosks of a chain, which meet at a broker.
struct Chain {
    /// The trigger with which an operator asks all kiosks to try again now.
    static let retry = "retry-now"

    var broker: FleetBroker

    /// Returns a member; without a name it is an operator, who only looks and asks.
    func member(_ name: FleetName?, _ monitor: ReachabilityMonitor = .shared) throws -> FleetMember {
        var configuration = FleetMember.Configuration()
        configuration.scope = .host(broker.host)
        return try FleetMember(
            node: name, site: FleetName("chain"), broker: broker, monitor: monitor, configuration: configuration)
    }
}

/// Writes a line at once, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
