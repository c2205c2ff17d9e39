/// The disturbances that may still happen in an explored run.
package struct DisturbanceBudget<Disturbance: CaseIterable & RawRepresentable & Hashable> where Disturbance.RawValue == Int {
    /// The number of each disturbance by its raw value, then that of all.
    ///
    /// Only zeros if none may happen any more, so that such states are equal.
    package private(set) var left: [UInt8]

    /// - Parameter most: The number of all disturbances together.
    package init(_ counts: [Disturbance: Int], most: Int) {
        left = Disturbance.allCases.map { UInt8(counts[$0] ?? 0) } + [UInt8(most)]
    }

    private var total: Int { left.count - 1 }

    package func may(_ disturbance: Disturbance) -> Bool { left[total] > 0 && left[disturbance.rawValue] > 0 }

    package mutating func spend(_ disturbance: Disturbance) {
        left[disturbance.rawValue] -= 1
        left[total] -= 1
        if left[total] == 0 { end() }
    }

    /// Lets nothing happen any more.
    package mutating func end() { left = left.map { _ in 0 } }
}
