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
