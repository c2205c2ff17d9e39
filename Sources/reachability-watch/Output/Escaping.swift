import Reachability

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
