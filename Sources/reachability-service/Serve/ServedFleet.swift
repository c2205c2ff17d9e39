import CommandKit
import Logging
import Reachability
import ReachableFleet
import Synchronization

/// The service's membership in a fleet: it announces this machine, hears of the others, and acts on triggers.
///
/// Safe to use from any thread.
final class ServedFleet: Sendable {
    /// The trigger that makes the queue try waiting jobs at once.
    static let retryNow = "retry-now"
    /// The time for which a name in use is shown: the other machine shows itself at least once a minute.
    private static let rivalry = Duration.seconds(90)

    /// The time after which a missing connection is reported.
    private static let patience = Duration.seconds(10)

    let member: FleetMember
    private let node: FleetName
    private let broker: String
    private let say: @Sendable (String) -> Void
    /// The reader of the picture's last problem.
    private let obstacle: @Sendable () -> String?
    /// The last sign of another machine with this name, and true if this one is silent for it.
    private let rival = Mutex<(seen: ContinuousClock.Instant, isSilent: Bool)?>(nil)

    /// Creates it.
    ///
    /// - Parameters:
    ///   - obstacle: Returns the reason why the broker is not in reach; `nil` if the member knows more.
    ///   - say: Takes messages about the connection, and about triggers.
    init(
        _ member: FleetMember, node: FleetName, broker: String, obstacle: @escaping @Sendable () -> String? = { nil },
        say: @escaping @Sendable (String) -> Void
    ) {
        (self.member, self.node, self.broker, self.obstacle, self.say) = (member, node, broker, obstacle, say)
    }

    /// Creates the membership of a place.
    ///
    /// - Parameters:
    ///   - scopes: The destinations of the service: the first one is the state that this machine announces.
    ///   - stateDirectory: The folder in which the number of the last connection is kept; `nil` for none.
    convenience init(
        _ node: FleetName, at place: FleetPlace, monitor: ReachabilityMonitor, scopes: [Scope], stateDirectory: String?,
        say: @escaping @Sendable (String) -> Void
    ) throws(CommandFailure) {
        var configuration = FleetMember.Configuration()
        if let scope = scopes.first { configuration.scope = scope }
        configuration.stateDirectory = stateDirectory
        configuration.logger = FleetLog.logger { level, text in if level >= .info { say(text) } }
        let member = try place.member(node: node, monitor: monitor, configuration: configuration)
        let scope = place.broker.scope
        self.init(
            member, node: node, broker: "\(place.broker)",
            obstacle: {
                guard let path = monitor.lastPaths(to: [scope]).first, path.status == .unsatisfied else { return nil }
                return "the broker \(place.broker) is out of reach: \(path.summary)"
            },
            say: say)
    }

    /// Runs the member until the task is cancelled; its end is in order.
    ///
    /// - Parameters:
    ///   - onChange: Called after changes of the picture.
    ///   - onRetryNow: Called for each trigger `retry-now`; returns the sentence about what was done.
    func run(onChange: @escaping @Sendable () async -> Void, onRetryNow: @escaping @Sendable () async -> String) async {
        // Subscribed before the member runs.
        let (changes, triggers) = (member.changes, member.triggers)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [member] in await member.run() }
            // Without a way to the broker no connection fails that would be reported.
            let reminder = Task { [say, weak self] in
                guard (try? await Task.sleep(for: Self.patience)) != nil, let problem = self?.snapshot().problem else { return }
                say("not announced yet: \(problem)")
            }
            group.addTask { [self] in
                defer { reminder.cancel() }
                var isAnnounced = false
                for await change in changes {
                    switch change.kind {
                    case .current where !isAnnounced:
                        reminder.cancel()
                        // A broker that drops the words has had a line of its own.
                        guard member.lastFailure == nil else { break }
                        isAnnounced = true
                        say("announced as \(node) at the site \(member.site), by the broker \(broker)")
                    case .nameInUse(let run, let isSilent): note(run, isSilent)
                    default: break
                    }
                    await onChange()
                }
            }
            group.addTask { [say] in
                for await trigger in triggers {
                    let text = trigger.name.description == Self.retryNow ? await onRetryNow() : "it has no meaning here"
                    say("the fleet's trigger \(trigger.name): \(text)")
                }
            }
        }
    }

    private func note(_ run: FleetName, _ isSilent: Bool) {
        let now = ContinuousClock.now
        let isNew = rival.withLock { rival in
            defer { rival = (now, isSilent) }
            return rival.map { now - $0.seen > Self.rivalry } ?? true
        }
        if isNew { say("\(Self.text(node, isSilent)) (its run: \(run))") }
    }

    private static func text(_ node: FleetName, _ isSilent: Bool) -> String {
        "another machine is announced as \(node), too\(isSilent ? ", and this one is silent meanwhile" : ""); "
            + "next: give one of them another name"
    }

    /// Returns the fleet as it is now.
    func snapshot() -> FleetSnapshot {
        let picture = member.nodes
        var problem: String?
        if let rival = rival.withLock(\.self), ContinuousClock.now - rival.seen <= Self.rivalry {
            problem = Self.text(node, rival.isSilent)
        }
        if let failure = member.lastFailure { problem = failure.description }
        if !picture.isCurrent, let obstacle = obstacle() { problem = obstacle }
        return FleetSnapshot(
            node: node, site: member.site, broker: broker, picture: picture, isConnected: member.isConnected, problem: problem,
            ignored: member.counts)
    }
}
