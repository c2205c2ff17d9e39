#if MQTT
import Glibc
import Logging
import Reachability
import ReachabilityTesting
import ReachableFleet
import ReachableRetry

/// A member of a fleet for tests that kill and freeze it: `fleet-probe URL SITE NODE [OPTION=VALUE…]`.
///
/// The node `-` is an observer. Options: `keep-alive=SECONDS`, `state=FOLDER`, `user=NAME`, `password=FILE`, `ca=FILE`,
/// `cert=FILE`, `key=FILE`, and `count=N` for the nodes NODE-0, NODE-1, … in one process. It prints a line for each event, and with
/// several nodes one when all pictures are complete. Lines of standard input are requests: `trigger NAME`, `forget NAME`, `counts`.
/// Its end ends the members in order.
@main struct FleetProbe {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4 else {
            print("usage: fleet-probe URL SITE NODE [OPTION=VALUE…]")
            exit(64)
        }
        var options: [String: String] = [:]
        for word in arguments.dropFirst(4) {
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2 { options[parts[0]] = parts[1] }
        }
        let broker = try FleetBroker(
            arguments[1], user: options["user"], passwordFile: options["password"], caFile: options["ca"],
            certificateFile: options["cert"], keyFile: options["key"])
        var configuration = FleetMember.Configuration()
        configuration.logger = Logger(label: "fleet") { _ in ProbeLog() }
        configuration.stateDirectory = options["state"]
        if let seconds = options["keep-alive"].flatMap({ Int64($0) }) { configuration.keepAlive = .seconds(seconds) }
        let site = try FleetName(arguments[2])
        let count = options["count"].flatMap { Int($0) }
        let names: [FleetName?]
        if let count {
            names = try (0..<count).map { try FleetName("\(arguments[3])-\($0)") }
        } else {
            names = [arguments[3] == "-" ? nil : try FleetName(arguments[3])]
        }
        // The sandbox of a test may have no network.
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let monitoring = Task { try await monitor.run() }
        let members = try names.map {
            try FleetMember(
                node: $0, site: site, transport: FleetMember.transport(broker), scope: nil, monitor: monitor,
                bus: RetryBus(monitor, clock: ContinuousClock()), configuration: configuration)
        }
        // Before it connects: what comes first is not missed.
        let (changes, triggers) = (members[0].changes, members[0].triggers)
        let running = Task {
            await withTaskGroup(of: Void.self) { group in
                for member in members { group.addTask { await member.run() } }
            }
        }
        let listening = Task {
            if count != nil { await report(members) } else { await report(changes, triggers, of: members[0]) }
        }
        readRequests(members[0]) { running.cancel() }
        await running.value
        await listening.value
        say("ended")
        monitoring.cancel()
    }

    private static func report(
        _ changes: AsyncStream<FleetChange>, _ triggers: AsyncStream<FleetTrigger>, of member: FleetMember
    ) async {
        let listening = Task {
            for await trigger in triggers { say("trigger \(trigger.name)") }
        }
        for await change in changes {
            switch change.kind {
            case .current: say("current " + member.nodes.nodes.map { "\($0.name)=\($0.state.rawValue)" }.joined(separator: " "))
            case .unknown: say("unknown")
            case .keptLongEnough: say("keptLongEnough")
            case .node(let node): say("node \(node.name) \(node.state.rawValue) \(node.epoch) \(node.run)")
            case .removed(let name): say("removed \(name)")
            case .nameInUse(let run, let isSilent): say("nameInUse \(run) \(isSilent ? "silent" : "renews")")
            }
        }
        listening.cancel()
    }

    /// Prints when every member shows all of them online.
    private static func report(_ members: [FleetMember]) async {
        await withTaskGroup(of: Void.self) { group in
            for member in members {
                group.addTask {
                    // All nodes are read once for each connection only: at each change a thousand members would read a million.
                    var (isCurrent, online, last) = (false, Set<FleetName>(), UInt64(0))
                    for await change in member.changes {
                        switch change.kind {
                        case .node(let node) where change.sequence == last + 1:
                            if node.state == .online { online.insert(node.name) } else { online.remove(node.name) }
                        case .removed(let name) where change.sequence == last + 1: online.remove(name)
                        default:
                            let picture = member.nodes
                            isCurrent = picture.isCurrent
                            online = Set(picture.nodes.lazy.filter { $0.state == .online }.map(\.name))
                        }
                        last = change.sequence
                        if isCurrent, online.count >= members.count { return }
                    }
                }
            }
        }
        say("complete")
        for await _ in members[0].changes {}
    }

    /// Prints a line with one write(2), whenever the process dies.
    static func say(_ text: String) {
        let line = Array((text + "\n").utf8)
        _ = write(STDOUT_FILENO, line, line.count)
    }

    private static func readRequests(_ member: FleetMember, _ end: @escaping @Sendable () -> Void) {
        SystemThread.start {
            while let line = readLine() {
                let words = line.split(separator: " ").map(String.init)
                let name = words.count == 2 ? try? FleetName(words[1]) : nil
                Task {
                    do {
                        if let name, words[0] == "trigger" { try await member.trigger(name) }
                        if let name, words[0] == "forget" { try await member.forget(name) }
                        let counts = member.counts
                        let numbers = [counts.malformed, counts.oversized, counts.foreignVersion, counts.ignoredTriggers]
                        say("\(line) done: " + numbers.map(String.init).joined(separator: " "))
                    } catch {
                        say("\(line) failed: \(error)")
                    }
                }
            }
            end()
        }
    }
}

/// Prints the messages of the log.
private struct ProbeLog: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { FleetProbe.say("log \(event.message)") }
}
#else
/// Without the trait MQTT there is no broker to connect to.
@main struct FleetProbe {
    static func main() { print("fleet-probe needs the trait MQTT") }
}
#endif
