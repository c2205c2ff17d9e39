import Glibc
import Reachability

/// The maximum length of user input quoted in messages, in characters.
package let longestQuotation = 64

/// Returns input for a message: escaped for terminals, at most 64 characters long.
///
/// Leaves out the middle of a longer text: the end of a path says more than its folders.
package func quotation(_ text: String) -> String {
    // Escape first: `\u{202e}` takes eight characters on the screen.
    let escaped = ForeignText(text).terminal
    guard escaped.count > longestQuotation else { return escaped }
    let tail = longestQuotation * 3 / 8
    return "\(escaped.prefix(longestQuotation - 1 - tail))…\(escaped.suffix(tail))"
}

/// Returns an error text with the words of the command line replaced by their quotations.
///
/// - Parameters:
///   - text: The error text; its line breaks are kept.
///   - words: The words of the command line. The value of `--option=value` counts as a word, too.
package func quotingInput(in text: String, words: [String]) -> String {
    let values = words.compactMap { word in word.firstIndex(of: "=").map { String(word[word.index(after: $0)...]) } }
    // Longest first: a word may be part of another one.
    let ordered = Set(words + values).filter { $0 != quotation($0) }.sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) }
    var text = text
    for word in ordered {
        // A short word, such as a line break, may occur in the text by chance: replace it between quotation marks only.
        text =
            word.count > longestQuotation
            ? text.replacing(word, with: quotation(word)) : text.replacing("'\(word)'", with: "'\(quotation(word))'")
    }
    return text.split(separator: "\n", omittingEmptySubsequences: false).map { ForeignText(String($0)).terminal }
        .joined(separator: "\n")
}

/// Returns the symbol of an error number (errno(3)) that lookups and requests end with, or else the number.
package func errorName(_ number: Int32) -> String {
    switch number {
    case ENETUNREACH: "ENETUNREACH"
    case EHOSTUNREACH: "EHOSTUNREACH"
    case EACCES: "EACCES"
    case EINVAL: "EINVAL"
    case ENODEV: "ENODEV"
    case ENETDOWN: "ENETDOWN"
    case EPERM: "EPERM"
    case EAFNOSUPPORT: "EAFNOSUPPORT"
    default: "errno \(number)"
    }
}

/// Returns the C library's description of an error number.
package func errorText(_ number: Int32) -> String { String(cString: strerror(number)) }

/// Returns a number in decimal digits, with leading zeros.
package func zeroPadded(_ value: some BinaryInteger, _ digits: Int) -> String {
    let text = "\(value)"
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
