import Reachability

/// The greatest number of characters of a user's input that an error text repeats.
let longestQuotation = 64

/// Returns input in a form that an error text can hold: escaped for terminals, at most 64 characters long.
///
/// The middle of a longer text is left out, because the end of a path says more than its folders.
func quotation(_ text: String) -> String {
    // Escaped first: `\u{202e}` is eight characters on the screen.
    let escaped = escapedForTerminal(text)
    guard escaped.count > longestQuotation else { return escaped }
    let tail = longestQuotation * 3 / 8
    return "\(escaped.prefix(longestQuotation - 1 - tail))…\(escaped.suffix(tail))"
}

/// Returns an error text with each word of the command line that it repeats replaced by its quotation.
///
/// - Parameters:
///   - text: the error text; it keeps its line breaks.
///   - words: the words of the command line. The value of `--option=value` counts as a word, too.
func quotingInput(in text: String, words: [String]) -> String {
    let values = words.compactMap { word in word.firstIndex(of: "=").map { String(word[word.index(after: $0)...]) } }
    // Longest first: one word may be a part of another one.
    let ordered = Set(words + values).filter { $0 != quotation($0) }.sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) }
    var text = text
    for word in ordered {
        // A short word, such as a lone line break, may occur in the text by chance: it is replaced between quotation marks only.
        text =
            word.count > longestQuotation
            ? text.replacing(word, with: quotation(word)) : text.replacing("'\(word)'", with: "'\(quotation(word))'")
    }
    return text.split(separator: "\n", omittingEmptySubsequences: false).map { escapedForTerminal(String($0)) }
        .joined(separator: "\n")
}
