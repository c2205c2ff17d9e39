import Foundation
import Reachability
import ReachableFleet

/// An operator of the chain.
struct Operator {
    var chain: Chain

    /// Prints the nodes that are not online, with the reason and the time, and the number of the others.
    func list() async throws {
        try await withFleet { member in
            let nodes = member.nodes.nodes
            for node in nodes where node.state != .online {
                // A lost node cannot say when: it was after the start of its connection.
                let relation = node.state == .lost ? "after" : "since"
                let time = Date(timeIntervalSince1970: node.since / .seconds(1)).ISO8601Format()
                print("\(node), \(relation) \(time)\(node.isOld ? ", not seen for 30 days" : "")")
            }
            print("\(nodes.count { $0.state == .online }) of \(nodes.count) online")
        }
    }

    /// Asks all kiosks to try again now.
    func retryAll() async throws {
        try await withFleet { member in try await member.trigger(FleetName(Chain.retry)) }
    }

    /// Removes the word of a kiosk that is gone for good.
    func forget(_ name: FleetName) async throws {
        try await withFleet { member in try await member.forget(name) }
    }

    /// Runs a body when the picture is current.
    private func withFleet(_ body: (FleetMember) async throws -> Void) async throws {
        let member = try chain.member(nil)
        // Cancelled at the end of this function: the member leaves the broker in order.
        async let _: Void = member.run()
        async let _: Void = explain(member)
        for await change in member.changes where change.kind == .current { return try await body(member) }
    }

    /// Says after some seconds why there is no connection.
    private func explain(_ member: FleetMember) async throws {
        while true {
            try await Task.sleep(for: .seconds(5))
            if let failure = member.lastFailure { say("no broker: \(failure)") }
        }
    }
}
