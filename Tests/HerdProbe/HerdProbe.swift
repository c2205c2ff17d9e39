#if MQTT
import Glibc
import Reachability
import ReachableFleet
import ReachableRetry
import Synchronization

/// One machine of a site on a real cable, for `Scripts/herd`: `herd-probe NODE BROKER SERVER OPTION=VALUE…`.
///
/// BROKER is `mqtt://HOST`, SERVER is an IPv4 address with a port. Options: `machines=N`, the number of machines of the site, and
/// `shares=yes` to share what the bus learns. A line `submit ROUND COUNT` of standard input submits that many jobs; its end ends
/// the program.
///
/// Prints a line for each event, which begins with the milliseconds of CLOCK_MONOTONIC: `online`, `offline`, `fleet` when it sees
/// all machines online, `apart` when it no longer does, `no broker`, `submitted ROUND`, and for the attempts of a job
/// `start JOB NUMBER`, `failed JOB NUMBER REASON` and `done JOB NUMBER`.
@main struct HerdProbe {
    private static let policy = RetryPolicy(
        .exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(60)).jitter(.full)
    )
    .giveUpAfter(maxAttempts: nil)
    .connectivity(.wait(upTo: nil))
    .classify { $0 is HerdRequest.Refusal ? .overload() : nil }
    .errno { ($0 as? HerdRequest.Failure)?.number }

    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4, let server = HerdRequest.Server(arguments[3]) else {
            print("usage: herd-probe NODE BROKER ADDRESS:PORT [machines=N] [shares=yes]")
            exit(64)
        }
        let node = try FleetName(arguments[1])
        let options = arguments.dropFirst(4)
        let machines = options.compactMap { $0.hasPrefix("machines=") ? Int($0.dropFirst(9)) : nil }.last ?? 1
        let scope = Scope.host(server.host)
        let monitor = ReachabilityMonitor()
        let monitoring = Task { try await monitor.run() }
        var fleet = FleetMember.Configuration()
        fleet.scope = scope
        let member = try FleetMember(
            node: node, site: FleetName("herd"), broker: FleetBroker(arguments[2]), monitor: monitor, configuration: fleet)
        var configuration = RetryBus.Configuration()
        if options.contains("shares=yes") { configuration.site = member.sharing }
        let bus = RetryBus(monitor, configuration: configuration)
        let running = Task { await member.run() }
        let watching = [
            Task { await watch(monitor.transitions(to: scope, raw: true)) },
            Task { await watch(member, machines) },
        ]
        for await (round, count) in requests() {
            for number in 0..<count {
                Task { await run("\(node)/\(round)/\(number)", on: bus, to: scope, server) }
            }
            say("submitted \(round)")
        }
        running.cancel()
        await running.value
        for task in watching { task.cancel() }
        monitoring.cancel()
    }

    private static func run(_ job: String, on bus: RetryBus, to scope: Scope, _ server: HerdRequest.Server) async {
        let options = JobOptions(destination: "server")
        do {
            try await bus.retry(policy, to: scope, options: options) { attempt in
                say("start \(job) \(attempt.number)")
                do {
                    try await HerdRequest.send("\(job) \(attempt.number)", to: server, within: .seconds(2))
                    say("done \(job) \(attempt.number)")
                } catch {
                    say("failed \(job) \(attempt.number) \(error)")
                    throw error
                }
            }
        } catch {
            say("ended \(job) \(error)")
        }
    }

    private static func watch(_ transitions: some AsyncSequence<Transition, Never>) async {
        for await transition in transitions {
            switch transition.current.status {
            case .satisfied: say("online")
            case .unsatisfied: say("offline")
            case .unknown: break
            }
        }
    }

    private static func watch(_ member: FleetMember, _ machines: Int) async {
        var isComplete = false
        for await change in member.changes {
            let picture = member.nodes
            let isNow = picture.isCurrent && picture.nodes.count(where: { $0.state == .online }) >= machines
            if isNow != isComplete { say(isNow ? "fleet" : "apart") }
            isComplete = isNow
            if case .unknown = change.kind { say("no broker") }
        }
    }

    /// Reads the requests of standard input, on a thread of its own.
    private static func requests() -> AsyncStream<(round: String, count: Int)> {
        let (stream, continuation) = AsyncStream.makeStream(of: (round: String, count: Int).self)
        SystemThread.start {
            while let line = readLine() {
                let words = line.split(separator: " ")
                guard words.count == 3, words[0] == "submit", let count = Int(words[2]) else { continue }
                continuation.yield((String(words[1]), count))
            }
            continuation.finish()
        }
        return stream
    }

    /// Prints a line with one write(2), whenever the process dies.
    private static func say(_ text: String) {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let line = Array("\(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000) \(text)\n".utf8)
        _ = write(STDOUT_FILENO, line, line.count)
    }
}
#else
/// Without the trait MQTT there is no broker to connect to.
@main struct HerdProbe {
    static func main() { print("herd-probe needs the trait MQTT") }
}
#endif
