/// The instability of a scope: each loss adds 1, and the sum halves every 15 s (after RFC 2439).
package struct FlapPenalty: Equatable, Sendable {
    package static let halfLife: Duration = .seconds(15)

    private var value = 0.0
    private var at: Duration = .zero

    package init() {}

    package mutating func addLoss(at now: Duration) {
        value = level(at: now) + 1
        at = now
    }

    package func level(at now: Duration) -> Double {
        guard value > 0 else { return 0 }
        // In whole nanoseconds: the quotient of two durations is computed in 128 bits.
        let age = Double(now.saturatingSubtract(at).clampedNanoseconds)
        let halfLives = max(0, age / Double(Self.halfLife.clampedNanoseconds))
        guard halfLives < 64 else { return 0 }
        let whole = Int(halfLives)
        return value * Self.halfPower(halfLives - Double(whole)) / Double(UInt64(1) << UInt64(whole))
    }

    /// Returns 2 to the power of −x for x in 0..<1, by the series of e^(−x·ln 2): seven terms are exact to 1e-8.
    private static func halfPower(_ x: Double) -> Double {
        let y = -x * 0.693_147_180_559_945_3
        return 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6 * (1 + y / 7 * (1 + y / 8)))))))
    }
}

/// The detection of flapping paths.
///
/// After more than ``mostEdges`` edges within ``span`` a path is unsteady until ``calm`` has passed without another edge. An edge
/// is a growth of the epoch after the first evaluation.
package struct Steadiness: Equatable, Sendable {
    package static let mostEdges = 5
    package static let span: Duration = .seconds(30)
    package static let calm: Duration = .seconds(3)

    /// The last edges, the oldest first; at most ``mostEdges``.
    private var edges: [Duration] = []
    /// The time at which the path is steady again; `nil` while it is.
    package private(set) var steadyAt: Duration?

    package init() {}

    package mutating func noteEdge(at now: Duration) {
        advance(to: now)
        if edges.count == Self.mostEdges {
            let isFlapping = now.saturatingSubtract(edges.removeFirst()) <= Self.span
            if isFlapping || steadyAt != nil { steadyAt = now.saturatingAdd(Self.calm) }
        }
        edges.append(now)
    }

    package mutating func advance(to now: Duration) {
        if let time = steadyAt, time <= now { steadyAt = nil }
    }
}
