internal import Reachability

/// The delays after failures.
///
/// A value without state: each delay follows from the number of the failure. Negative durations are treated as zero, and
/// arithmetic saturates instead of trapping. If there is a maximum, no delay exceeds it, jitter included.
///
/// ```swift
/// let backoff = Backoff.exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(30)).jitter(.full)
/// ```
public struct Backoff: Sendable {
    private enum Curve: Sendable {
        case constant(Duration)
        case linear(initial: Duration, increment: Duration)
        case exponential(initial: Duration, multiplier: Double)
        case fibonacci(unit: Duration)
        case custom(@Sendable (Int) -> Duration)
    }

    private let curve: Curve
    /// The longest delay; `nil` sets no limit.
    public let maximum: Duration?
    private var jitter = Jitter.none

    private init(_ curve: Curve, maximum: Duration? = nil) {
        self.curve = curve
        self.maximum = maximum.map { max(.zero, $0) }
    }

    /// No delay.
    public static var immediate: Backoff { constant(.zero) }

    /// The same delay after each failure.
    public static func constant(_ delay: Duration) -> Backoff { Backoff(.constant(max(.zero, delay))) }

    /// A delay that grows by the same amount each time: 3, 5, 7, 9 s for 3 s and 2 s.
    public static func linear(initial: Duration, increment: Duration, maximum: Duration? = nil) -> Backoff {
        Backoff(.linear(initial: max(.zero, initial), increment: max(.zero, increment)), maximum: maximum)
    }

    /// A delay that is multiplied each time: 1, 2, 4, 8 s for 1 s and 2.
    ///
    /// A multiplier below 1 or NaN is treated as 1, which makes the delay constant.
    public static func exponential(initial: Duration, multiplier: Double = 2, maximum: Duration? = nil) -> Backoff {
        Backoff(.exponential(initial: max(.zero, initial), multiplier: multiplier >= 1 ? multiplier : 1), maximum: maximum)
    }

    /// A delay that is the sum of the two before: 1, 1, 2, 3, 5, 8 times the unit.
    public static func fibonacci(unit: Duration, maximum: Duration? = nil) -> Backoff {
        Backoff(.fibonacci(unit: max(.zero, unit)), maximum: maximum)
    }

    /// A delay that the caller computes from the number of the failure, which starts at 1.
    ///
    /// The function is called on any thread, outside of locks, also for a delay that another decision replaces. With
    /// ``Jitter/decorrelated`` it is called for the first delay only.
    public static func custom(maximum: Duration? = nil, _ delay: @escaping @Sendable (Int) -> Duration) -> Backoff {
        Backoff(.custom(delay), maximum: maximum)
    }

    /// Returns the backoff with jitter, which replaces earlier jitter.
    public func jitter(_ jitter: Jitter) -> Backoff {
        var backoff = self
        backoff.jitter = jitter
        return backoff
    }

    /// Returns the delay after a failure.
    ///
    /// - Parameters:
    ///   - n: The number of the failure. Values below 1 are treated as 1.
    ///   - previous: The previous delay, for decorrelated jitter; `nil` for the first.
    ///   - generator: The source of randomness. One number is drawn if there is jitter, otherwise none.
    public func delay(
        afterFailure n: Int, previous: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        delay(afterFailure: n, previous: previous, random: jitter == .none ? 0 : Self.random(generator.next()))
    }

    /// True if a delay needs a random number.
    var isRandom: Bool { jitter != .none }

    /// Returns the delay for a random number in [0, 1).
    func delay(afterFailure n: Int, previous: Duration?, random: Double) -> Duration {
        let n = max(1, n)
        // Only decorrelated jitter uses the first delay, and the caller's function should not be called without need.
        let first = jitter == .decorrelated ? capped(1) : .zero
        let delay = jitter == .decorrelated ? first : capped(n)
        return jitter.spread(delay, first: first, previous: previous, maximum: maximum, random)
    }

    /// Returns the 53 high bits as a fraction: each multiple of 2^-53 in [0, 1) is equally likely.
    static func random(_ number: UInt64) -> Double { Double(number >> 11) * 0x1p-53 }

    private func capped(_ n: Int) -> Duration {
        let delay = max(.zero, uncapped(n))
        return maximum.map { min($0, delay) } ?? delay
    }

    private func uncapped(_ n: Int) -> Duration {
        switch curve {
        case .constant(let delay): return delay
        case .linear(let initial, let increment):
            let (growth, overflow) = increment.attoseconds.multipliedReportingOverflow(by: Int128(n - 1))
            return overflow ? .longest : initial.saturatingAdd(Duration(attoseconds: growth))
        case .exponential(let initial, let multiplier): return Self.power(initial, multiplier, n - 1)
        case .fibonacci(let unit): return Self.fibonacci(n, unit)
        case .custom(let delay): return delay(n)
        }
    }

    /// Exponentiates by squaring, so that the cost does not grow with the number of failures.
    private static func power(_ initial: Duration, _ multiplier: Double, _ exponent: Int) -> Duration {
        var (factor, base, rest) = (1.0, multiplier, exponent)
        while rest > 0 {
            if rest & 1 == 1 { factor *= base }
            base *= base
            rest >>= 1
        }
        return initial.scaled(by: factor)
    }

    private static func fibonacci(_ n: Int, _ unit: Duration) -> Duration {
        guard unit > .zero else { return .zero }
        var (current, next) = (unit, unit)
        // The 187th number saturates even with a unit of 1 attosecond.
        for _ in 1..<min(n, 186) where current < .longest { (current, next) = (next, current.saturatingAdd(next)) }
        return n > 186 ? .longest : current
    }
}

/// The randomization of delays, so that jobs that fail together do not return together.
///
/// The delay is capped first and randomized inside the cap: it never exceeds the cap, and long outages keep the spread.
public enum Jitter: Hashable, Sendable {
    /// No jitter.
    case none
    /// A random part of the delay.
    case full
    /// Half of the delay and a random part of the other half.
    case equal
    /// A random delay from the first one to three times the previous one, below the cap, as AWS describes it.
    ///
    /// Uses only the backoff's first delay and cap, not its growth. Without a cap the limit is 1 h.
    case decorrelated
    /// The delay less a random part of this share of it. The share is clamped to 0…1.
    case proportional(Double)

    /// The longest decorrelated delay of a backoff without a cap.
    static let longestUncapped = Duration.seconds(3600)

    /// Returns the delay for a random number in [0, 1).
    ///
    /// - Parameters:
    ///   - delay: the capped delay.
    ///   - first: the backoff's first delay.
    ///   - previous: the delay before this one; `nil` for the first.
    ///   - maximum: the backoff's cap.
    func spread(_ delay: Duration, first: Duration, previous: Duration?, maximum: Duration?, _ random: Double) -> Duration {
        switch self {
        case .none: return delay
        case .full: return delay.scaled(by: random)
        case .equal:
            let half = delay / 2
            return half.saturatingAdd((delay - half).scaled(by: random))
        case .decorrelated:
            let cap = maximum ?? Self.longestUncapped
            let low = min(first, cap)
            let high = max(low, min(cap, max(.zero, previous ?? first).scaled(by: 3)))
            return low.saturatingAdd((high - low).scaled(by: random))
        case .proportional(let share):
            let share = share.isNaN ? 0 : min(1, max(0, share))
            return delay.scaled(by: 1 - share * (1 - random))
        }
    }
}

extension Duration {
    /// Returns the duration times a factor, saturating.
    ///
    /// Negative values and NaN give zero.
    ///
    /// A Double has 53 bits, so products of up to 52 days are exact to 1 ns.
    func scaled(by factor: Double) -> Duration {
        guard self > .zero, factor > 0 else { return .zero }
        if factor == 1 { return self }
        let attoseconds = Double(attoseconds) * factor
        // 2^127 does not fit.
        guard attoseconds < 0x1p127 else { return .longest }
        return Duration(attoseconds: Int128(attoseconds))
    }
}
