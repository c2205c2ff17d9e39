/// What jobs of one scope and destination have in common: how fast they are let go, and whether the other side was reached.
package struct GateState: Hashable, Sendable {
    /// How long jobs wait at least after a failure of the network on a path that is there: such failures are not counted, and a
    /// policy without delays would never end.
    static let leastDelay = Duration.milliseconds(500)
    /// How long after an edge a silent server is taken for a network that is still coming up.
    static let settlingTime = Duration.seconds(30)

    /// The scope's epoch in which an attempt succeeded last.
    private var successEpoch: UInt64?
    /// How many jobs use it.
    var uses = 0

    package init() {}

    package mutating func noteSuccess(in epoch: UInt64) { successEpoch = epoch }

    /// Whether silence is more likely the network's than the server's: nobody got through since the edge, and it was just now.
    package func blamesTheNetwork(epoch: UInt64, edgeAt: BusTime, now: BusTime) -> Bool {
        successEpoch != epoch && edgeAt != .past && now <= edgeAt + Self.settlingTime
    }

    /// Whether a job whose conditions are met may start.
    ///
    /// Every release policy answers here, and nowhere else.
    package func admits(_ release: ReleasePolicy) -> Bool {
        switch release.kind {
        case .immediate: true
        }
    }
}
