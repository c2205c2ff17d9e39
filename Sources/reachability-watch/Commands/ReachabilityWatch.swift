import ArgumentParser

/// The command `reachability-watch`.
@main
struct ReachabilityWatch: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reachability-watch",
        abstract: "Tells whether and how this machine can reach the network, and what changed, as the kernel says it.",
        discussion: """
            It listens to the kernel and asks its routing tables; it sends no packets.

            EXAMPLES
              Watch the connection come and go, for people or for programs:
                reachability-watch
                reachability-watch --format json --to 192.0.2.7

              Start as soon as the network is there, or give up:
                reachability-watch wait --timeout 5m && rsync -a photos/ nas:photos/

              Take an outage home, to look at it in peace:
                reachability-watch record --for 1h outage.reach
                reachability-watch replay outage.reach

              Repeat a command until it succeeds, and start again the moment the network is back:
                reachability-watch run -- rsync -a photos/ nas:photos/

            EXIT CODES
              0   yes                      64  usage
              1   no, or timed out         65  not a recording
              2   unknown                  66  input cannot be read
                                           69  netlink not available
                                           73  output cannot be made
                                           74  output failed
                                           77  no permission
              run ends with the command's code; 124 deadline or --attempt-timeout, 126 not executable, 127 not found.
            """,
        version: "0.1.0",
        subcommands: [
            WatchCommand.self, StatusCommand.self, WaitCommand.self, ExplainCommand.self, RunCommand.self, RecordCommand.self,
            ReplayCommand.self,
        ],
        defaultSubcommand: WatchCommand.self)

    /// Synchronous, so that a namespace can be entered while there is only this thread.
    static func main() {
        ProcessSetup.perform()
        StartConditions.check()
        let words = RawArguments.texts
        do {
            var command = try parse(words)
            try command.run()
        } catch {
            guard exitCode(for: error) != .success else { exit(withError: error) }
            let text = quotingInput(in: fullMessage(for: error), words: words)
            try? DescriptorOutput.diagnostics.write(text)
            // Writes nothing more.
            exit(withError: exitCode(for: error))
        }
    }

    /// The names of the commands, for words that are none.
    static var suggestion: CommandSuggestion {
        CommandSuggestion(names: configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"])
    }

    /// Reads the words of the command line behind the program's name.
    ///
    /// A misspelt command is named before its options, which the default command may not have.
    static func parse(_ words: [String]) throws -> any ParsableCommand {
        if let word = suggestion.unknownCommand(in: words) { throw ValidationError(suggestion.error(for: word)) }
        return try parseAsRoot(words)
    }
}
