package import ArgumentParser

/// The options of `wait`.
///
/// Both programs have the command: `reachability-watch` waits for scopes, and hands over to `reachability-service` if a node of a
/// fleet is named.
package struct WaitOptions: ParsableArguments {
    /// The status to wait for.
    package enum Until: String, CaseIterable, ExpressibleByArgument {
        case satisfied
        case unsatisfied
    }

    /// Returns the description of the command.
    ///
    /// - Parameter isShown: False for the program whose list of commands leaves it out.
    package static func configuration(isShown: Bool = true) -> CommandConfiguration {
        CommandConfiguration(
            commandName: "wait",
            abstract: "Exits with 0 once all is reachable, 1 after the timeout, 2 if the network cannot be observed.",
            discussion: """
                Waits until every scope of --to and every node of --node is there at once. Writes nothing to standard output.

                EXAMPLES
                  reachability-watch wait && rsync -a photos/ nas:photos/
                  reachability-watch wait --to 192.0.2.7 --until unsatisfied --timeout 1h
                  reachability-watch wait --node nas --broker mqtts://broker.local --site home && ./backup.sh
                """,
            shouldDisplay: isShown)
    }

    /// The option that makes `wait` a command of the other program.
    package static let nodeOption = "--node"

    @OptionGroup package var target: ScopeOptions
    @OptionGroup package var monitoring: MonitorOptions

    @Option(
        help: ArgumentHelp(
            """
            Wait until this node of the fleet is there: online or degraded. While the broker is not connected the node is unknown, \
            and the wait goes on. Without --to only nodes count. May be repeated.
            """,
            valueName: "name"))
    package var node: [String] = []

    @Option(
        help: ArgumentHelp(
            "The status to wait for: satisfied or unsatisfied; a node is unsatisfied while it is not there.", valueName: "status"))
    package var until = Until.satisfied

    @Option(
        help: ArgumentHelp("Give up after this time, such as 250ms, 2s, 5m or 1h; includes suspend.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    package var timeout: DurationArgument?

    @Flag(name: .shortAndLong, help: "Write the outcome to standard error.")
    package var verbose = false

    @OptionGroup(title: "Options of the fleet") package var broker: BrokerOptions

    package func validate() throws {
        if node.isEmpty, let option = broker.given.first {
            throw ValidationError("\(option) names a fleet, and no node of it is waited for; next: add --node, or omit it")
        }
    }

    /// Returns true if the words of a command line, after the program's name, wait for a node.
    package static func nameNode(_ words: [String]) -> Bool {
        guard words.first == "wait" else { return false }
        return words.contains { $0 == nodeOption || $0.hasPrefix("\(nodeOption)=") }
    }

    /// Creates it, for the parser.
    package init() {}
}
