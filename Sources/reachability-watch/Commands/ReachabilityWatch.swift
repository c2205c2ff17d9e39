import ArgumentParser
import CommandKit

/// The command `reachability-watch`.
@main
struct ReachabilityWatch: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reachability-watch",
        abstract: "Shows whether this machine can reach the network, what changed and why, as the kernel reports it.",
        discussion: """
            Listens to kernel events and looks up routes; sends no packets.

            EXAMPLES
              Watch every change, as text or as JSON:
                reachability-watch
                reachability-watch --format json --to 192.0.2.7

              Start once the network is there, or give up:
                reachability-watch wait --timeout 5m && rsync -a photos/ nas:photos/

              Record an outage and replay it elsewhere:
                reachability-watch record --for 1h outage.reach
                reachability-watch replay outage.reach

              See what a retry policy would do, before you ship it:
                reachability-watch simulate train.txt --output train.svg

              Repeat a command until it succeeds, and retry the moment the network is back:
                reachability-watch run -- rsync -a photos/ nas:photos/

              Keep it on disk until it has succeeded, also over reboots:
                reachability-watch queue add -- rsync -a photos/ nas:photos/

              See which machines of a site are there, and wait for one of them:
                reachability-watch fleet --broker mqtts://nas.local --site home
                reachability-watch wait --node nas --broker mqtts://nas.local --site home

              Keep a history, and report its outages as a page:
                reachability-watch --log reachability.json
                reachability-watch report --output page.html reachability.json

            EXIT CODES
              0   yes                      64  usage
              1   no, or timed out         65  not a recording or scenario
              2   unknown                  66  input cannot be read
                                           69  netlink not available
                                           73  output cannot be created
                                           74  output failed
                                           77  no permission
              run: its command's code; 124 time limit, 126 not executable, 127 not found.
            """,
        version: Program.version,
        subcommands: [
            WatchCommand.self, StatusCommand.self, WaitCommand.self, ExplainCommand.self, RunCommand.self, RecordCommand.self,
            ReplayCommand.self, SimulateCommand.self,
        ] + ServiceProgram.commands,
        defaultSubcommand: WatchCommand.self)

    static func main() {
        // First of all: the other program prepares itself.
        if ServiceProgram.isNamed(in: RawArguments.texts) { ServiceProgram.execute() }
        Program.main(Self.self, parse: parse)
    }

    /// The suggestions for misspelt commands.
    static var suggestion: CommandSuggestion {
        CommandSuggestion(
            names: configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"],
            help: "reachability-watch --help lists the commands; --to names a destination")
    }

    /// Parses the words of the command line after the program's name.
    ///
    /// A misspelt command is reported before its options, which the default command may not have.
    static func parse(_ words: [String]) throws -> any ParsableCommand {
        if let word = suggestion.unknownCommand(in: words) { throw ValidationError(suggestion.error(for: word)) }
        return try parseAsRoot(words)
    }
}
