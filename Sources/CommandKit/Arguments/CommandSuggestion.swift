/// The nearest command to a misspelt one.
package struct CommandSuggestion {
    /// The names of all commands.
    package let names: [String]
    private let help: String

    /// Creates it.
    ///
    /// - Parameters:
    ///   - names: The names of all commands.
    ///   - help: The advice for words like none of them.
    package init(names: [String], help: String) { (self.names, self.help) = (names, help) }

    /// Returns the error text for a word in the place of a command.
    package func error(for word: String) -> String {
        // `--to nas.local status`: the options belong to the default command by then.
        guard !names.contains(word) else { return "'\(word)' is a command, but not the first word; next: write it first" }
        let beginning = "'\(quotation(word))' is not a command; "
        if let name = nearest(to: word) { return beginning + "next: try '\(name)'" }
        return beginning + "next: \(help)"
    }

    /// Returns the first word if it stands before all options and is not a command.
    package func unknownCommand(in words: [String]) -> String? {
        guard let first = words.first, !first.hasPrefix("-"), !names.contains(first) else { return nil }
        return first
    }

    /// Returns the name with the smallest edit distance, at most two and half of the letters, or the only one with this prefix.
    package func nearest(to word: String) -> String? {
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
