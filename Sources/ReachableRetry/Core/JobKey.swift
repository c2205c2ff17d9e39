/// Where a job is kept.
package typealias JobIndex = Int32

/// Names a job for as long as it lives: its place, and how often the place was used before.
package struct JobKey: Hashable, Sendable {
    package let index: JobIndex
    package let generation: UInt32
}

/// Where a condition is kept.
package typealias ConditionIndex = Int32
