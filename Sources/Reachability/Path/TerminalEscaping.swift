/// Text from the kernel or the command line, made fit for a terminal, and for logs that end up on one.
///
/// An interface's name may hold escape sequences, line breaks and writing that runs backwards. What is not visible is
/// written `\xNN` or `\u{…}`. A backslash stays: in names it is encoded already (`\x5c`).
package func escapedForTerminal(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
        if scalar.isHarmless {
            result.unicodeScalars.append(scalar)
        } else if scalar.isASCII {
            result += "\\x" + hexadecimal(scalar.value, digits: 2)
        } else {
            result += "\\u{" + hexadecimal(scalar.value, digits: 1) + "}"
        }
    }
    return result
}

extension Unicode.Scalar {
    /// Whether it shows as itself, does nothing to a terminal and nothing to the text around it.
    package var isHarmless: Bool {
        if isASCII { return (0x20...0x7e).contains(value) }
        switch properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator, .spaceSeparator:
            return false
        default:
            return !properties.isDefaultIgnorableCodePoint
        }
    }
}

/// A number in lowercase hexadecimal digits, with leading zeros.
package func hexadecimal(_ value: some BinaryInteger, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
