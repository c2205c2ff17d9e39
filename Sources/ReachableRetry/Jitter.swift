internal import Reachability

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
    func spread(_ delay: Duration, first: Duration, previous: Duration?, maximum: Duration?, _ chance: Double) -> Duration {
        switch self {
        case .none: return delay
        case .full: return delay.scaled(by: chance)
        case .equal:
            let half = delay / 2
            return half.saturatingAdd((delay - half).scaled(by: chance))
        case .decorrelated:
            let cap = maximum ?? Self.longestUncapped
            let low = min(first, cap)
            let high = max(low, min(cap, max(.zero, previous ?? first).scaled(by: 3)))
            return low.saturatingAdd((high - low).scaled(by: chance))
        case .proportional(let share):
            let share = share.isNaN ? 0 : min(1, max(0, share))
            return delay.scaled(by: 1 - share * (1 - chance))
        }
    }
}
