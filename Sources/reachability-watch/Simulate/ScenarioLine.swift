import CommandKit
import Reachability

/// An error in a line of a scenario file.
struct ScenarioError: Error, Hashable, CustomStringConvertible {
    /// The number of the line, from 1.
    var line: Int
    /// The mistake and, after `next:`, the remedy.
    var message: String

    /// The line's number and the mistake.
    var description: String { "line \(line): \(message)" }
}

/// The errors of a scenario file, in the order of their lines.
struct ScenarioErrors: Error, Hashable {
    /// The number of errors after which the rest of the file is not read.
    static let most = 10

    /// The errors.
    var list: [ScenarioError]
}

/// The words of a line, which are taken from its beginning.
struct ScenarioLine {
    /// The number of the line, from 1.
    let number: Int
    private var rest: ArraySlice<String>

    /// Splits a line at spaces and tabs; a word that begins with `#` begins a comment.
    init(number: Int, _ text: Substring) {
        self.number = number
        let words = text.split { $0 == " " || $0 == "\t" }
        rest = words.prefix { !$0.hasPrefix("#") }.map(String.init)[...]
    }

    /// True if no word is left.
    var isEmpty: Bool { rest.isEmpty }

    /// Takes the next word.
    ///
    /// - Parameters:
    ///   - meaning: The meaning of the word, with an article.
    ///   - example: A correct line or part of one.
    mutating func word(_ meaning: String, _ example: String) throws(ScenarioError) -> String {
        guard let word = rest.popFirst() else { throw error("\(meaning) is missing", "write for example: \(example)") }
        return word
    }

    /// Takes the next word if it is this one.
    mutating func take(_ keyword: String) -> Bool {
        guard rest.first == keyword else { return false }
        rest.removeFirst()
        return true
    }

    /// Takes this word.
    mutating func expect(_ keyword: String, _ example: String) throws(ScenarioError) {
        guard take(keyword) else {
            let found = rest.first.map { "'\(quotation($0))' stands where" } ?? "the line ends where"
            throw error("\(found) '\(keyword)' belongs", "write for example: \(example)")
        }
    }

    /// Takes a duration.
    mutating func duration(_ meaning: String, _ example: String) throws(ScenarioError) -> Duration {
        let word = try word(meaning, example)
        do {
            return try DurationArgument(word).duration
        } catch {
            throw self.error("'\(quotation(word))' is \(error)")
        }
    }

    /// Takes a whole number.
    mutating func number(_ meaning: String, _ range: ClosedRange<Int>, _ example: String) throws(ScenarioError) -> Int {
        let word = try word(meaning, example)
        let isDecimal = word.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard isDecimal, let number = Int(word), range.contains(number) else {
            throw error(
                "'\(quotation(word))' is not a number from \(range.lowerBound) to \(range.upperBound)",
                "write for example: \(example)")
        }
        return number
    }

    /// Takes a name for something new: at most 64 bytes.
    mutating func name(_ meaning: String, _ example: String) throws(ScenarioError) -> String {
        let word = try word(meaning, example)
        guard word.utf8.count <= 64 else {
            throw error("'\(quotation(word))' has more than 64 bytes", "choose a shorter name")
        }
        return word
    }

    /// Takes the index of a known name.
    mutating func index(of meaning: String, in names: [String], _ statement: String) throws(ScenarioError) -> Int {
        let word = try word("the name of a \(meaning)", names.first ?? "photos")
        guard let index = names.firstIndex(of: word) else {
            if names.isEmpty { throw error("there is no \(meaning) '\(quotation(word))'", "add a line such as: \(statement)") }
            throw unknown(word, "a \(meaning)", names)
        }
        return index
    }

    /// Takes all words that are left.
    mutating func remaining() -> [String] {
        defer { rest = [] }
        return Array(rest)
    }

    /// Reports words that are left.
    mutating func end(_ example: String) throws(ScenarioError) {
        if let word = rest.first { throw error("'\(quotation(word))' does not belong here", "write for example: \(example)") }
    }

    /// Returns the error of an unknown word, with the nearest known one.
    func unknown(_ word: String, _ meaning: String, _ names: [String]) -> ScenarioError {
        let nearest = CommandSuggestion(names: names, help: "").nearest(to: word)
        let listed = names.prefix(10).map { quotation($0) }.joined(separator: ", ") + (names.count > 10 ? ", …" : "")
        return error(
            "'\(quotation(word))' is not \(meaning)", nearest.map { "try '\(quotation($0))'" } ?? "use one of: \(listed)")
    }

    /// Returns an error of this line.
    func error(_ mistake: String, _ next: String? = nil) -> ScenarioError {
        ScenarioError(line: number, message: mistake + (next.map { "; next: \($0)" } ?? ""))
    }
}
