import ArgumentParser

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

              Repeat a command until it succeeds, and retry the moment the network is back:
                reachability-watch run -- rsync -a photos/ nas:photos/

            EXIT CODES
              0   yes                      64  usage
              1   no, or timed out         65  not a recording
              2   unknown                  66  input cannot be read
                                           69  netlink not available
                                           73  output cannot be created
                                           74  output failed
                                           77  no permission
              run exits with the command's code; 124 deadline or --attempt-timeout, 126 not executable, 127 not found.
            """,
        version: "0.1.0",
        subcommands: [
            WatchCommand.self, StatusCommand.self, WaitCommand.self, ExplainCommand.self, RunCommand.self, RecordCommand.self,
            ReplayCommand.self,
        ],
        defaultSubcommand: WatchCommand.self)

    /// Runs synchronously: a namespace must be entered while there is only one thread.
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
            // The text is out already: this only ends the process.
            exit(withError: exitCode(for: error))
        }
    }

    /// The suggestions for misspelt commands.
    static var suggestion: CommandSuggestion {
        CommandSuggestion(names: configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"])
    }

    /// Parses the words of the command line after the program's name.
    ///
    /// A misspelt command is reported before its options, which the default command may not have.
    static func parse(_ words: [String]) throws -> any ParsableCommand {
        if let word = suggestion.unknownCommand(in: words) { throw ValidationError(suggestion.error(for: word)) }
        return try parseAsRoot(words)
    }
}

/// The nearest command to a misspelt one.
struct CommandSuggestion {
    /// The names of all commands.
    let names: [String]

    /// Returns the error text for a word in the place of a command.
    func error(for word: String) -> String {
        let beginning = "'\(quotation(word))' is not a command; "
        if let name = nearest(to: word) { return beginning + "next: try '\(name)'" }
        return beginning + "next: reachability-watch --help lists the commands; --to names a destination"
    }

    /// Returns the first word if it stands before all options and is not a command.
    func unknownCommand(in words: [String]) -> String? {
        guard let first = words.first, !first.hasPrefix("-"), !names.contains(first) else { return nil }
        return first
    }

    /// Returns the name with the smallest edit distance, at most two and half of the letters, or the only one with this prefix.
    func nearest(to word: String) -> String? {
        // Longer words are not misspelt commands, and slow to compare.
        guard !word.isEmpty, word.count <= 32 else { return nil }
        let letters = Array(word.lowercased())
        let distances = names.map { (name: $0, distance: Self.distance(letters, Array($0))) }
        if let best = distances.min(by: { $0.distance < $1.distance }), best.distance <= 2, best.distance * 2 <= letters.count {
            return best.name
        }
        let longer = names.filter { $0.hasPrefix(word.lowercased()) }
        return longer.count == 1 ? longer[0] : nil
    }

    /// Returns the number of insertions, deletions, replacements and swaps of neighbours (Damerau-Levenshtein).
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
