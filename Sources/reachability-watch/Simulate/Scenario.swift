import CommandKit
import ReachableRetry

/// The content of a scenario file: a scripted network, servers, policies and jobs.
struct Scenario: Sendable {
    /// The longest file, in bytes.
    static let longestFile = 1 << 20
    /// The number of jobs that a scenario may have.
    static let mostJobs = 20_000
    /// The number of addresses, of servers, of policies, and of behaviours of a server.
    static let mostNames = 200
    /// The number of changes.
    static let mostChanges = 1000
    /// The number of attempts at which a simulation stops.
    static let mostAttempts = 300_000
    /// The time after the last scripted event at which a simulation without `until` ends, with jobs that have not ended.
    static let patience = Duration.seconds(3600)

    /// The file's first comment.
    var title: String?
    /// The machine and the script of its changes.
    var network = ScriptedNetwork()
    /// The servers.
    var servers: [ScriptedServer] = []
    /// The policies; the first one is the default.
    var policies: [ScriptedPolicy]
    /// The jobs, in the order of the file.
    var jobs: [ScriptedJob] = []
    /// The rate of starts after a reconnect.
    var release = ReleasePolicy.gated
    /// The time without a packet after which a client gives up an attempt.
    var timeout = Duration.seconds(10)
    /// The end; `nil` for the end of the last job.
    var until: Duration?
}

/// A policy of a scenario.
struct ScriptedPolicy: Sendable {
    /// The name of the policy of jobs that name none: unless the scenario has it, it is that of `run` without options.
    static let standardName = "default"

    /// The name.
    let name: String
    /// The options that differ from the defaults, as for `run`.
    let text: String
    /// The policy, which classifies scripted failures.
    let policy: RetryPolicy

    /// Creates a policy from the options of `run`.
    init(name: String, _ options: RetryOptions) {
        self.name = name
        text = options.words.joined(separator: " ")
        policy = options.policy.classifyingScriptedFailures
    }
}

/// A job of a scenario.
struct ScriptedJob: Hashable, Sendable {
    /// The name, unique in the scenario.
    var name: String
    /// The time of its submission.
    var at = Duration.zero
    /// The index of its server; `nil` for a server of its own that always answers.
    var server: Int?
    /// The index of its policy.
    var policy = 0
    /// The time from the connection to the server's answer.
    var takes = Duration.milliseconds(100)
    /// The order among jobs that may start at the same time.
    var priority = JobPriority.normal
}
