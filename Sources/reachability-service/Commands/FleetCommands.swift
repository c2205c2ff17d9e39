import ArgumentParser
import CommandKit
import Reachability
import ReachableFleet

/// The command `fleet`.
struct FleetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Shows which machines of a site are there, as their broker knows it, and asks them to act.",
        discussion: """
            Machines announce themselves with `reachability-watch serve --announce NAME`, or in a program of yours with \
            ReachableFleet. A broker for MQTT 3.1.1, such as mosquitto, keeps their words. These commands announce nothing.

            EXAMPLES
              reachability-watch fleet --broker mqtts://broker.local --site home
              reachability-watch fleet --follow
              reachability-watch fleet --format json | jq -r 'select(.state == "lost").name'
              reachability-watch fleet trigger retry-now
              reachability-watch fleet forget old-kiosk

            STATES
              online        reaches its network
              degraded      reaches its network, with a defect that it names
              offline       reaches the broker, and not its network
              disconnected  has ended in order
              lost          the broker has lost it: a crash, a frozen process, or a dead line
              unknown       the broker has no present word of it

            EXIT CODES
              0   done                     66  a file of certificates or the password cannot be read
              1   no: see forget           69  built without MQTT
              2   the site is unknown: the broker is not connected
              64  usage                    77  the broker refuses this client
            """,
        subcommands: [FleetListCommand.self, FleetTriggerCommand.self, FleetForgetCommand.self],
        defaultSubcommand: FleetListCommand.self)
}

/// The subcommand `fleet list`.
struct FleetListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Writes the nodes of the site: state, since when, last sign of life, and the reason.",
        discussion: """
            A node that was lost before this command has no known end: `after` names the start of the connection that was lost. A \
            node that is gone, and was not seen for 30 days, is old.

            With --follow each change is a line, until the command is stopped. While the broker is not connected all nodes are \
            unknown, never offline; a line says so, and another one when they are known again.
            """)

    @OptionGroup var visit: FleetVisitOptions
    @OptionGroup var form: FormatOption

    @Flag(name: .shortAndLong, help: "Go on with a line for each change.")
    var follow = false

    func validate() throws {
        if follow, visit.timeout != nil {
            throw ValidationError("--follow waits for the broker as long as it takes; next: leave out --timeout, or --follow")
        }
    }

    func run() {
        FleetProgram.run { [self] in
            guard follow else { return try await list() }
            ReaderWatch.start()
            let visit = try visit.begin { DescriptorOutput.printMessage($0) }
            return try await visit.run { await write(visit) }
        }
    }

    private func list() async throws -> ExitStatus {
        let visit = try visit.begin()
        let site = visit.member.site
        do {
            let picture = try await visit.run { try await visit.picture(within: self.visit.timeLimit) }
            let now = Moment.now.wallTime
            if form.format == .json {
                let lines = [JSONValue.picture(picture, of: site, problem: nil, at: now)] + picture.nodes.map { .node($0, at: now) }
                return Program.write(lines.map(\.description), thenEndWith: .yes)
            }
            let report = FleetReport(now: now, style: form.style, localOffset: localOffset(at: now))
            return Program.write(report.table(picture, of: site), thenEndWith: .yes)
        } catch let failure as CommandFailure where form.format == .json {
            // Scripts see that nothing is known, and since when.
            let line = JSONValue.picture(visit.member.nodes, of: site, problem: failure.message, at: Moment.now.wallTime)
            _ = Program.write([line.description], thenEndWith: failure.status)
            throw failure
        }
    }

    /// Writes the lines of `--follow` until the output fails.
    private func write(_ visit: FleetVisit) async -> ExitStatus {
        var follower = FleetFollower(of: visit.member.site, form.format, form.style)
        for await change in visit.member.changes {
            let now = Moment.now.wallTime
            let lines = follower.lines(
                for: change, visit.member.nodes, problem: visit.obstacle, at: now, localOffset: localOffset(at: now))
            do throws(OutputFailure) {
                for line in lines { try DescriptorOutput.standard.write(line) }
            } catch {
                return Program.report(error)
            }
        }
        return .unknown
    }
}

/// The subcommand `fleet trigger`.
struct FleetTriggerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trigger",
        abstract: "Asks all connected nodes to act, and writes how many there are.",
        discussion: """
            Each node acts at most once, at a time of its own within 10 s, so that they do not act all at once; nodes that are not \
            connected never hear of it. What a name means is up to the nodes: `retry-now` makes services of `serve --announce` try \
            waiting commands of their queues at once.

            A broker with an access list drops what a client may not publish, and does not say so: the command ends with 77 if the \
            broker has not shown it the trigger within 10 s.
            """)

    @OptionGroup var visit: FleetVisitOptions

    @Option(
        help: ArgumentHelp("Nodes act within this time or not at all: 1s to 1h. Default: 60s.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var within: DurationArgument?

    @Argument(help: "The name of the trigger, such as retry-now.")
    var name: String

    func validate() throws {
        if let within, !(.seconds(1) ... .seconds(3600)).contains(within.duration) {
            throw ValidationError("--within is not from 1s to 1h; next: use a time in this range")
        }
    }

    func run() {
        FleetProgram.run { [self] in
            let trigger = try FleetPlace.name(name, of: "the trigger")
            let visit = try visit.begin()
            let limit = within?.duration ?? .seconds(60)
            return try await visit.run {
                let picture = try await visit.picture(within: self.visit.timeLimit)
                try await visit.member.trigger(trigger, within: limit)
                return Program.write([Self.line(trigger, limit, picture)], thenEndWith: .yes)
            }
        }
    }

    /// Returns the sentence about a sent trigger.
    static func line(_ trigger: FleetName, _ limit: Duration, _ picture: FleetPicture) -> String {
        let time = durationText(min(limit, .seconds(10)))
        return switch picture.nodes.count(where: \.state.isConnected) {
        case 0: "sent \(trigger), and no node is connected that could hear it"
        case 1: "sent \(trigger) to 1 connected node, which acts within \(time)"
        case let count: "sent \(trigger) to \(count) connected nodes, which act within \(time)"
        }
    }
}

/// The subcommand `fleet forget`.
struct FleetForgetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Removes the words of nodes that are gone for good; exits with 1 if one of them is connected or unknown.")

    @OptionGroup var visit: FleetVisitOptions

    @Argument(help: ArgumentHelp("The names of the nodes.", valueName: "node"))
    var nodes: [String]

    func run() {
        FleetProgram.run { [self] in
            var names: [FleetName] = []
            for node in nodes { names.append(try FleetPlace.name(node, of: "the node")) }
            let visit = try visit.begin()
            return try await visit.run { [names] in
                let picture = try await visit.picture(within: self.visit.timeLimit)
                var status = ExitStatus.yes
                for name in names {
                    if let obstacle = Self.obstacle(to: name, picture) {
                        DescriptorOutput.printMessage(obstacle)
                        status = .no
                    } else {
                        try await visit.member.forget(name)
                    }
                }
                return status
            }
        }
    }

    /// Returns the reason why a node is not forgotten, with the remedy; `nil` if there is none.
    static func obstacle(to name: FleetName, _ picture: FleetPicture) -> String? {
        guard let node = picture.nodes.first(where: { $0.name == name }) else {
            return "there is no node \(name); next: reachability-watch fleet lists them"
        }
        guard node.state.isConnected else { return nil }
        return "\(name) is connected, and would announce itself again; next: stop it first"
    }
}

/// The options of the fleet's commands.
struct FleetVisitOptions: ParsableArguments {
    @OptionGroup var broker: BrokerOptions

    @Option(
        help: ArgumentHelp("Give up if the broker has not answered within this time. Default: 10s.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    var timeLimit: Duration { timeout?.duration ?? .seconds(10) }

    /// Makes the observer.
    ///
    /// - Parameter say: Takes the failures of connections.
    func begin(_ say: (@Sendable (String) -> Void)? = nil) throws(CommandFailure) -> FleetVisit {
        try FleetVisit(FleetPlace(broker.settings(Program.environment)), say: say)
    }
}

/// The frame of the fleet's commands.
enum FleetProgram {
    /// Runs a command, reports its failure and ends the process.
    static func run(in namespace: String? = nil, _ body: @escaping @Sendable () async throws -> ExitStatus) -> Never {
        Program.run(in: namespace) {
            do {
                return try await body()
            } catch {
                let failure = failure(error)
                DescriptorOutput.printMessage(quotingInput(in: failure.message, words: RawArguments.texts))
                return failure.status
            }
        }
    }

    private static func failure(_ error: any Error) -> CommandFailure {
        switch error {
        case let failure as CommandFailure: failure
        case let error as FleetError: CommandFailure(error.code == .notHeard ? .notPermitted : .unknown, "\(error)")
        default: CommandFailure(.unknown, "\(error)")
        }
    }
}
