import ReachableRetry

/// Blocks an operation until a test has seen it and opens the gate.
final class Gate: Sendable {
    private let reached = AsyncStream.makeStream(of: Void.self)
    private let opened = AsyncStream.makeStream(of: Void.self)

    /// Waits until the gate is open or the task is cancelled.
    func pass() async {
        reached.continuation.yield()
        for await _ in opened.stream {}
    }

    /// Waits until an operation is at the gate.
    func untilReached() async {
        for await _ in reached.stream { break }
    }

    func open() { opened.continuation.finish() }
}

extension Task where Failure == any Error {
    /// The task's value.
    ///
    /// Cancels the task with its caller, so that a test ends at its time limit.
    func finished() async throws -> Success {
        try await withTaskCancellationHandler {
            try await value
        } onCancel: {
            cancel()
        }
    }
}

/// Reports by their evidence alone.
extension FailureReport {
    static let unclassified = FailureReport(.unclassified)
    static let unreachable = FailureReport(.unreachable)
    static let unanswered = FailureReport(.unanswered)
    static let timedOut = FailureReport(.timedOut)
    static let noNameServer = FailureReport(.noNameServer)
    static let refused = FailureReport(.refused)
    static let noSourceAddress = FailureReport(.noSourceAddress)
    static let shortage = FailureReport(.shortage)
    /// An unclassified error that ends the job.
    static let final = FailureReport(.unclassified, mayRetry: false)

    static func classified(_ failure: AttemptFailure) -> FailureReport { FailureReport(failure) }
}

/// A generator that always returns the same number and counts the draws.
struct ConstantGenerator: RandomNumberGenerator {
    let value: UInt64
    private(set) var draws = 0

    init(_ value: UInt64) { self.value = value }

    /// The least random number: 0.
    static var least: ConstantGenerator { ConstantGenerator(0) }
    /// The random number 1/2.
    static var half: ConstantGenerator { ConstantGenerator(1 << 63) }
    /// The greatest random number below 1.
    static var greatest: ConstantGenerator { ConstantGenerator(.max) }

    mutating func next() -> UInt64 {
        draws += 1
        return value
    }
}

/// A sample of numbers with its statistics.
struct Sample {
    let values: [Double]

    var mean: Double { values.reduce(0, +) / Double(values.count) }

    var standardDeviation: Double {
        let mean = mean
        return (values.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Double(values.count)).squareRoot()
    }

    /// Returns the tolerance of the mean: four times its standard deviation.
    func meanTolerance(_ standardDeviation: Double) -> Double { 4 * standardDeviation / Double(values.count).squareRoot() }

    /// Returns the greatest distance of the distribution from a uniform one (Kolmogorov and Smirnov).
    ///
    /// For 20 000 uniform values it is below 0.0138 in 999 of 1000 cases.
    func distance(from low: Double, to high: Double) -> Double {
        let count = Double(values.count)
        return values.sorted().enumerated().reduce(0) { greatest, value in
            let expected = (value.element - low) / (high - low)
            return max(greatest, abs(expected - Double(value.offset) / count), abs(expected - Double(value.offset + 1) / count))
        }
    }

    /// The number of occurrences of each value.
    var counts: [Double: Int] { values.reduce(into: [:]) { $0[$1, default: 0] += 1 } }
}
