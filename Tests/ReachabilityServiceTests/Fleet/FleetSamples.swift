import CommandKit

@testable import ReachableFleet
@testable import reachability_service

/// Nodes and pictures at a fixed time.
enum FleetSamples {
    /// 2026-01-01T00:00:00Z, and the time of the reports: an hour later.
    static let midnight = Duration.seconds(1_767_225_600)
    static let now = midnight + .seconds(3600)

    /// Returns a node; by default it has been online since midnight, and was seen at the same time.
    static func node(
        _ name: String, _ state: FleetNode.State = .online, last: FleetNode.State? = nil, reason: String? = nil,
        since: Duration = midnight, seen: Duration? = nil, isOld: Bool = false, run: String = "r1"
    ) throws -> FleetNode {
        FleetNode(
            name: try FleetName(name), state: state, lastState: last ?? state, reason: reason, since: since,
            lastSeen: seen ?? since, isOld: isOld, run: try FleetName(run), epoch: 1, sequence: 1)
    }

    static func picture(_ nodes: [FleetNode], unknownSince: Duration? = nil, sequence: UInt64 = 1) -> FleetPicture {
        FleetPicture(sequence: sequence, unknownSince: unknownSince, nodes: nodes)
    }
}
