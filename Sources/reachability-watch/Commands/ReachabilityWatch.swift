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

/// The command that a word was probably meant to be.
struct CommandSuggestion {
    /// The names of all commands.
    let names: [String]

    /// Returns the error text for a word that stands where a command may stand, and is none.
    func error(for word: String) -> String {
        let beginning = "'\(quotation(word))' is not a command; "
        if let name = nearest(to: word) { return beginning + "did you mean '\(name)'?" }
        return beginning + "next: reachability-watch --help lists them. A destination is named with --to."
    }

    /// Returns the word that is no command although it stands in its place: in front of all options.
    func unknownCommand(in words: [String]) -> String? {
        guard let first = words.first, !first.hasPrefix("-"), !names.contains(first) else { return nil }
        return first
    }

    /// Returns the name that takes the fewest changes, at most two and half of the letters; or the only one that begins so.
    func nearest(to word: String) -> String? {
        // Longer words are no misspelt command, and would take long to compare.
        guard !word.isEmpty, word.count <= 32 else { return nil }
        let letters = Array(word.lowercased())
        let distances = names.map { (name: $0, distance: Self.distance(letters, Array($0))) }
        if let best = distances.min(by: { $0.distance < $1.distance }), best.distance <= 2, best.distance * 2 <= letters.count {
            return best.name
        }
        let longer = names.filter { $0.hasPrefix(word.lowercased()) }
        return longer.count == 1 ? longer[0] : nil
    }

    /// Returns how many letters have to be inserted, left out, replaced, or exchanged with their neighbour.
    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var rows = [Array(0...right.count)]
        for (row, letter) in left.enumerated() {
            var next = [row + 1]
            for (column, other) in right.enumerated() {
                var best = min(next[column] + 1, rows[row][column + 1] + 1, rows[row][column] + (letter == other ? 0 : 1))
                if row > 0, column > 0, letter == right[column - 1], left[row - 1] == other {
                    best = min(best, rows[row - 1][column - 1] + 1)
                }
                next.append(best)
            }
            rows.append(next)
        }
        return rows[left.count][right.count]
    }
}
