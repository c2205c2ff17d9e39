internal import Reachability

/// How long to wait after which failure.
///
/// A value without memory: the delay follows from the number of the failure, so that it can be asked for any of them. No number
/// and no duration makes it trap: negative durations count as zero, and sums and products end at the longest duration there is.
/// Where there is a maximum, no delay exceeds it, jitter included; without one, delays that grow do so without end.
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
    /// What no delay exceeds; `nil` if there is no such limit.
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

    /// A delay that grows by the same amount each time: 3, 5, 7, 9 seconds for 3 seconds and 2.
    public static func linear(initial: Duration, increment: Duration, maximum: Duration? = nil) -> Backoff {
        Backoff(.linear(initial: max(.zero, initial), increment: max(.zero, increment)), maximum: maximum)
    }

    /// A delay that is multiplied each time: 1, 2, 4, 8 seconds for a second and 2.
    ///
    /// A multiplier below 1, or one that is no number, counts as 1: the delay is then constant.
    public static func exponential(initial: Duration, multiplier: Double = 2, maximum: Duration? = nil) -> Backoff {
        Backoff(.exponential(initial: max(.zero, initial), multiplier: multiplier >= 1 ? multiplier : 1), maximum: maximum)
    }

    /// A delay that is the sum of the two before: 1, 1, 2, 3, 5, 8 times the unit.
    public static func fibonacci(unit: Duration, maximum: Duration? = nil) -> Backoff {
        Backoff(.fibonacci(unit: max(.zero, unit)), maximum: maximum)
    }

    /// A delay that the caller computes from the number of the failure, the first being 1.
    ///
    /// The function is called once for each delay that is needed, on any thread, and not under a lock. With
    /// ``Jitter/decorrelated`` it is asked for the first delay only.
    public static func custom(maximum: Duration? = nil, _ delay: @escaping @Sendable (Int) -> Duration) -> Backoff {
        Backoff(.custom(delay), maximum: maximum)
    }

    /// The same backoff, spread by chance.
    ///
    /// Of several the last one counts.
    public func jitter(_ jitter: Jitter) -> Backoff {
        var backoff = self
        backoff.jitter = jitter
        return backoff
    }

    /// The delay after a failure.
    ///
    /// - Parameters:
    ///   - n: the number of the failure; the first is 1, and what is less counts as 1.
    ///   - previous: the delay before, which decorrelated jitter builds upon; `nil` for the first.
    ///   - generator: where chance comes from. One number is taken from it if there is jitter, otherwise none.
    public func delay(
        afterFailure n: Int, previous: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        delay(afterFailure: n, previous: previous, random: jitter == .none ? 0 : Self.random(generator.next()))
    }

    /// Whether a delay needs a random number.
    var isRandom: Bool { jitter != .none }

    /// The delay for a number from 0 up to, but not including, 1.
    func delay(afterFailure n: Int, previous: Duration?, random: Double) -> Duration {
        let n = max(1, n)
        // Only decorrelated jitter looks at the first delay; a function of the caller's is not called for nothing.
        let first = jitter == .decorrelated ? capped(1) : .zero
        let delay = jitter == .decorrelated ? first : capped(n)
        return jitter.spread(delay, first: first, previous: previous, maximum: maximum, random)
    }

    /// The 53 high bits as a fraction: every multiple of 2^-53 in [0, 1) is as likely.
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

    /// Squares instead of counting, so that the ten thousandth failure costs no more than the tenth.
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
        // Beyond the 186th, even of an attosecond, it is the longest duration.
        for _ in 1..<min(n, 186) where current < .longest { (current, next) = (next, current.saturatingAdd(next)) }
        return n > 186 ? .longest : current
    }
}

/// How chance spreads a delay, so that many who failed together do not come back together.
///
/// The delay is capped first and chance acts inside the cap: a jittered delay never exceeds it, and long outages do not take
/// the spread away.
public enum Jitter: Hashable, Sendable {
    /// The delay as it is.
    case none
    /// Anything from nothing to the delay.
    case full
    /// Half of the delay, and anything up to the other half.
    case equal
    /// Anything from the first delay to three times the one before, as AWS describe it, held below the cap.
    ///
    /// The delay before the first is the first delay. Of the backoff's growth nothing is left: only its first delay and its cap
    /// count. Without a cap it is held below an hour.
    case decorrelated
    /// The delay less anything up to this share of it, from 0 to 1; what lies outside of that counts as its nearest end.
    case proportional(Double)

    /// What decorrelated delays stay below if the backoff has no cap.
    static let longestUncapped = Duration.seconds(3600)

    /// The delay for a number from 0 up to, but not including, 1.
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
    /// The duration times a factor; what is negative or no number counts as nothing, and the product saturates.
    ///
    /// A Double has 53 bits: up to 52 days the product is right to a nanosecond.
    func scaled(by factor: Double) -> Duration {
        guard self > .zero, factor > 0 else { return .zero }
        if factor == 1 { return self }
        let attoseconds = Double(attoseconds) * factor
        // 2^127 is the first that does not fit.
        guard attoseconds < 0x1p127 else { return .longest }
        return Duration(attoseconds: Int128(attoseconds))
    }
}
