import Glibc
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

/// The symbol of an error number that a look-up or a request may end with (errno(3)), or its number in words.
func errorName(_ number: Int32) -> String {
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

/// What the C library says about an error number.
func errorText(_ number: Int32) -> String { String(cString: strerror(number)) }

/// The text that ``escapedForTerminal(_:)`` made this one of, so that what was printed can be typed.
///
/// What cannot be its work stays as it is: `\x5c` and `\xff` belong to the encoding of names.
func unescapedFromTerminal(_ text: String) -> String {
    var result = ""
    var rest = Substring(text)
    while let character = rest.unicodeScalars.popFirst() {
        guard character == "\\", let (scalar, end) = escapedScalar(rest), !scalar.isHarmless else {
            result.unicodeScalars.append(character)
            continue
        }
        result.unicodeScalars.append(scalar)
        rest = rest[end...]
    }
    return result
}

/// The scalar that `x` and two digits, or `u` and digits in braces, stand for, and where it ends.
private func escapedScalar(_ text: Substring) -> (Unicode.Scalar, String.Index)? {
    var rest = text.unicodeScalars
    switch rest.popFirst() {
    case "x":
        let digits = rest.prefix(2)
        guard digits.count == 2, let value = UInt8(Substring(digits), radix: 16), value < 0x80 else { return nil }
        return (Unicode.Scalar(value), digits.endIndex)
    case "u":
        guard rest.popFirst() == "{", let end = rest.firstIndex(of: "}"),
            let scalar = UInt32(Substring(rest[..<end]), radix: 16).flatMap(Unicode.Scalar.init)
        else { return nil }
        return (scalar, rest.index(after: end))
    default:
        return nil
    }
}

/// A number in decimal digits, with leading zeros.
func zeroPadded(_ value: some BinaryInteger, _ digits: Int) -> String {
    let text = "\(value)"
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
