package import Reachability

/// The words for the reasons why jobs wait, in memory and in stores.
package enum WaitWords {
    /// The target of a job.
    package static func target(_ scope: Scope, _ destination: String?) -> String {
        destination ?? (scope == .internet ? "the internet" : "\(scope)")
    }

    /// A missing path; if the monitor reports nothing missing, a lookup has outrun it.
    package static func network(_ scope: Scope, missing: String?) -> String {
        "\(scope == .internet ? "the network" : "a path to \(scope)"): \(missing ?? "a lookup found no route")"
    }

    /// An unmet condition.
    package static func condition(_ name: String) -> String { "condition '\(name)'" }

    /// The wait for all of these.
    package static func waits(for needs: [String]) -> String { "waits for " + needs.joined(separator: ", and for ") }

    /// A delay that is over.
    package static let isDue = "is due now"

    /// A delay before the first attempt.
    package static func due(in time: Duration) -> String { "is due in \(time.words)" }

    /// A delay that the policy chose, after a failure that begins with a space.
    package static func backoff(_ time: Duration, after failure: String) -> String { "backs off for \(time.words)\(failure)" }

    /// A delay that a server ordered for one job.
    package static func serverDelay(_ time: Duration) -> String { "the server ordered a delay of \(time.words)" }

    /// A delay that a server ordered for all jobs of a target.
    package static func hold(_ time: Duration?, _ target: String, answering job: String?) -> String {
        "waits\(time.map { " \($0.words)" } ?? ""): \(target) ordered a delay\(job.map { ", in its answer to \($0)" } ?? "")"
    }
}
