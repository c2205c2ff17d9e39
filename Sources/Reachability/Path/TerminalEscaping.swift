/// Escapes text from the kernel or the command line for terminals and logs.
///
/// An interface's name may hold escape sequences, line breaks and right-to-left marks. Invisible characters are written `\xNN` or
/// `\u{…}`. A backslash stays: in names it is encoded already (`\x5c`).
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
    /// True for a visible character that affects neither the terminal nor the text around it.
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

/// Returns a number in lowercase hexadecimal digits, with leading zeros.
package func hexadecimal(_ value: some BinaryInteger, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
