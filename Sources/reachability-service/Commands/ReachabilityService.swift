import ArgumentParser
import CommandKit

/// The commands that need Foundation, SQLite, HTTP or MQTT, reached as `reachability-watch queue …` and so on.
@main
struct ReachabilityService: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reachability-watch",
        abstract: "The part of reachability-watch that keeps commands on disk, serves, reports and joins fleets.",
        subcommands: [
            QueueCommand.self, ServeCommand.self, ReportCommand.self, FleetCommand.self, NodeWaitCommand.self, AttemptCommand.self,
        ])

    static func main() {
        Program.main(Self.self, parse: parse)
    }

    /// Parses the words of the command line after the program's name.
    ///
    /// A misspelt subcommand is reported before its options.
    static func parse(_ words: [String]) throws -> any ParsableCommand {
        for group in [QueueCommand.configuration, FleetCommand.configuration] where words.first == group.commandName {
            let names = group.subcommands.compactMap { $0.configuration.commandName } + ["help"]
            let help = "reachability-watch \(words[0]) --help lists the commands"
            let suggestion = CommandSuggestion(names: names, help: help)
            if let word = suggestion.unknownCommand(in: Array(words.dropFirst())) {
                throw ValidationError(suggestion.error(for: word))
            }
        }
        return try parseAsRoot(words)
    }
}

/// The command `queue`.
struct QueueCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue",
        abstract: "Keeps commands on disk and runs each until it has succeeded, also after a reboot.",
        discussion: """
            add stores a command; run is the worker that executes the stored commands. While a command's network is out of reach, \
            the command waits and loses no attempt; the moment the network is back, it starts.

            EXAMPLES
              reachability-watch queue add --to nas -- rsync -a photos/ nas:photos/
              reachability-watch queue add --name push --serial repo -- git push
              reachability-watch queue run
              reachability-watch queue list

            FILES
              ~/.local/state/reachability-watch/queue.db ($XDG_STATE_HOME), or --store
              queue.db.output/ beside it: the last mebibyte of each attempt's output

            EXIT CODES
              0   done                     66  no such job, or the store cannot be read
              1   no: see each command     73  the store cannot be created
              2   not finished (show)      74  reading or writing failed
              64  usage                    77  the store is not yours alone
              65  not a store, or a damaged one
            """,
        subcommands: [
            QueueAddCommand.self, QueueRunCommand.self, QueueListCommand.self, QueueShowCommand.self, QueueLogCommand.self,
            QueueRetryCommand.self, QueueCancelCommand.self, QueuePauseCommand.self, QueueResumeCommand.self,
            QueuePruneCommand.self,
        ])
}
