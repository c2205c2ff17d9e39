import Reachability
import ReachableRetry

/// A server of a scenario and the script of its behaviours.
struct ScriptedServer: Hashable, Sendable {
    /// The behaviour of a server.
    enum Behaviour: Hashable {
        /// Answers with an HTTP status; `retryAfter` is the delay that it orders.
        case answers(Int, retryAfter: Duration?)
        /// Refuses connections: ECONNREFUSED.
        case refuses
        /// Drops every packet.
        case drops
        /// A router on the way reports that there is no route to it: ENETUNREACH.
        case unreachable
    }

    /// A behaviour with its period.
    struct Phase: Hashable {
        var behaviour: Behaviour
        var from: Duration
        /// The end; `nil` for none.
        var until: Duration?
    }

    /// The name.
    let name: String
    /// The behaviours; later ones take precedence.
    var phases: [Phase] = []

    /// Returns the behaviour at a time: without a phase the server answers 200.
    func behaviour(at time: Duration) -> Behaviour {
        phases.last { $0.from <= time && $0.until.map { time < $0 } ?? true }?.behaviour ?? .answers(200, retryAfter: nil)
    }
}

/// The failure of a scripted attempt.
enum ScriptedFailure: Error, Hashable, Sendable {
    /// The server answered with this HTTP status.
    case answered(Int, retryAfter: Duration?)
    /// The server refused the connection.
    case refused
    /// The kernel has no route.
    case noRoute
    /// A router has no route.
    case unreachable
    /// No packet came back while connecting.
    case connectTimedOut
    /// No packet came any more on the connection.
    case connectionLost
}

extension Scenario {
    /// The times at which a client sends SYN: retransmissions begin after 1 s and each takes twice as long (RFC 6298, section 5).
    private static let synDelays = [0, 1, 3, 7, 15, 31, 63].map { Duration.seconds($0) }
    /// The time until a packet is answered; it keeps attempts that fail at once from repeating within one instant.
    static let roundTrip = Duration.milliseconds(1)

    /// The end of a scripted attempt; without a failure it is a success.
    typealias AttemptEnd = (at: Duration, failure: ScriptedFailure?)

    /// Returns the end of an attempt that starts at a time.
    func end(ofAttemptAt start: Duration, of job: ScriptedJob) -> AttemptEnd {
        for delay in Self.synDelays where delay < timeout {
            let time = start + delay
            switch network.uplinks[network.uplinkIndex(at: time)].uplink {
            case .noRoute where delay == .zero: return (time + Self.roundTrip, .noRoute)
            case .noRoute, .silent: continue
            case .working(let sources):
                switch job.server.map({ servers[$0].behaviour(at: time) }) ?? .answers(200, retryAfter: nil) {
                case .drops: continue
                case .refuses: return (time + Self.roundTrip, .refused)
                case .unreachable: return (time + Self.roundTrip, .unreachable)
                case .answers(let status, let retryAfter):
                    let failure = status < 400 ? nil : ScriptedFailure.answered(status, retryAfter: retryAfter)
                    return exchange(from: time, job.takes, sources.first, failure)
                }
            }
        }
        return (start + timeout, .connectTimedOut)
    }

    /// Returns the end of a connection that needs an amount of time on a working path.
    ///
    /// TCP survives a loss of the path and continues when it is back, unless the source address has changed.
    private func exchange(
        from start: Duration, _ takes: Duration, _ source: IPAddress?, _ failure: ScriptedFailure?
    ) -> AttemptEnd {
        var (time, rest) = (start, takes)
        var silentSince: Duration?
        for index in network.uplinkIndex(at: start)... {
            let next = index + 1 < network.uplinks.count ? network.uplinks[index + 1].at : nil
            if case .working(let sources) = network.uplinks[index].uplink, source.map(sources.contains) ?? false {
                silentSince = nil
                guard let next, time + rest > next else { break }
                rest -= next - time
                time = next
            } else {
                let limit = (silentSince ?? time) + timeout
                guard let next, next < limit else { return (limit, .connectionLost) }
                silentSince = silentSince ?? time
                time = next
            }
        }
        return (time + max(rest, Self.roundTrip), failure)
    }
}

extension RetryPolicy {
    /// The same policy, which classifies scripted failures as `ReachableHTTP` does those of HTTP requests that may be repeated.
    var classifyingScriptedFailures: RetryPolicy {
        classify { error in
            guard case .answered(let status, let retryAfter)? = error as? ScriptedFailure else { return nil }
            return switch status {
            case 429, 503: .overload(retryAfter: retryAfter)
            case 408, 421, 425, 500, 502, 504: .server
            case 500...: AttemptFailure(.server, mayRetry: false)
            default: .request
            }
        }.errno { error in
            switch error as? ScriptedFailure {
            // Linux' numbers (asm-generic/errno.h): ENETUNREACH, ETIMEDOUT, ECONNREFUSED.
            case .noRoute, .unreachable: 101
            case .connectTimedOut: 110
            case .refused: 111
            // The server had been reached: the silence proves nothing about the path.
            case .connectionLost, .answered, nil: nil
            }
        }
    }
}
