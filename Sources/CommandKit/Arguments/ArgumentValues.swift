package import ReachableRetry

/// A duration on the command line: `250ms`, `2s`, `1.5s`, `5m`, `1h`, `3d`.
package struct DurationArgument: Hashable {
    /// The upper limit of durations, a century: sums of two never overflow.
    package static let longest = Duration.seconds(100 * 365 * 86_400)

    /// The parsed duration.
    package let duration: Duration
    /// The text.
    package let text: String

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        guard let duration = Self.parse(text) else {
            throw InvalidArgument(
                "not a duration; next: write a number and a unit without a space: 250ms, 2s, 1.5s, 5m, 1h or 3d")
        }
        (self.duration, self.text) = (duration, text)
    }

    private static func parse(_ text: String) -> Duration? {
        let bytes = Array(text.utf8)
        let unit = bytes.drop { isDigit($0) || $0 == UInt8(ascii: ".") }
        let number = bytes.dropLast(unit.count).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard let nanosecondsPerUnit = nanosecondsPerUnit(String(decoding: unit, as: UTF8.self)),
            let whole = number.first, !whole.isEmpty, number.count <= 2, number.last?.isEmpty == false
        else { return nil }
        let fraction = number.count == 2 ? fraction(number[1], of: nanosecondsPerUnit) : 0
        let (nanoseconds, overflows) = integer(whole).multipliedReportingOverflow(by: nanosecondsPerUnit)
        guard !overflows, nanoseconds < nanosecondsInLongest else { return longest }
        return min(longest, .nanoseconds(nanoseconds + fraction))
    }

    private static let nanosecondsInLongest = Int64(longest / .nanoseconds(1))

    private static func nanosecondsPerUnit(_ unit: String) -> Int64? {
        switch unit {
        case "ms": 1_000_000
        case "s": 1_000_000_000
        case "m": 60_000_000_000
        case "h": 3_600_000_000_000
        case "d": 86_400_000_000_000
        default: nil
        }
    }

    /// Returns the value of decimal digits, at most `Int64.max`.
    private static func integer(_ digits: some Sequence<UInt8>) -> Int64 {
        var value: Int64 = 0
        for digit in digits {
            let (product, overflows) = value.multipliedReportingOverflow(by: 10)
            let (sum, overflowsToo) = product.addingReportingOverflow(Int64(digit - UInt8(ascii: "0")))
            if overflows || overflowsToo { return .max }
            value = sum
        }
        return value
    }

    /// Returns the nanoseconds of the digits after the decimal point, rounded down.
    private static func fraction(_ digits: some Sequence<UInt8>, of unit: Int64) -> Int64 {
        var numerator: Int128 = 0
        var denominator: Int128 = 1
        for digit in digits.prefix(18) {
            numerator = numerator * 10 + Int128(digit - UInt8(ascii: "0"))
            denominator *= 10
        }
        return Int64(numerator * Int128(unit) / denominator)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

/// A 32-bit number on the command line: decimal, or hexadecimal after `0x` as ip-rule(8) prints marks.
package struct NumberArgument: Hashable {
    /// The parsed number.
    package let value: UInt32

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        let isHexadecimal = text.hasPrefix("0x") || text.hasPrefix("0X")
        let digits = isHexadecimal ? text.dropFirst(2) : Substring(text)
        // UInt32.init accepts a sign; marks and users have none.
        guard digits.utf8.first != UInt8(ascii: "+"), let value = UInt32(digits, radix: isHexadecimal ? 16 : 10) else {
            throw InvalidArgument("not a 32-bit number; next: write 0 to 4294967295, or hexadecimal such as 0x2a")
        }
        self.value = value
    }
}

/// A port on the command line: 1 to 65535.
package struct PortArgument: Hashable {
    /// The parsed number.
    package let value: UInt16

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        guard text.utf8.first != UInt8(ascii: "+"), let value = UInt16(text), value > 0 else {
            throw InvalidArgument("not a port; next: write 1 to 65535")
        }
        self.value = value
    }
}

/// A size of a file on the command line: a number of bytes, or `64KiB`, `10MiB`, `1GiB`.
package struct SizeArgument: Hashable, Sendable {
    /// The parsed number of bytes.
    package let bytes: Int64

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let factor: Int64? =
            switch String(text.utf8.dropFirst(digits.count)) {
            case "": 1
            case "KiB": 1 << 10
            case "MiB": 1 << 20
            case "GiB": 1 << 30
            default: nil
            }
        let product = Int64(String(decoding: digits, as: UTF8.self))?.multipliedReportingOverflow(by: factor ?? 1)
        guard factor != nil, let product, !product.overflow else {
            throw InvalidArgument("not a size; next: write a number of bytes, or 64KiB, 10MiB or 1GiB")
        }
        bytes = product.partialValue
    }
}

/// The speed of a replay on the command line: `1` for real time, `10`, `0.5`, or `max`.
package struct SpeedArgument: Hashable {
    /// The recorded seconds replayed in one second; `nil` for unlimited speed.
    package let factor: Double?

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        guard text != "max" else {
            factor = nil
            return
        }
        let isNumber = text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: ".") }
        guard isNumber, let factor = Double(text), (0.001...1_000_000).contains(factor) else {
            throw InvalidArgument("not a speed; next: write a number from 0.001 to 1000000, such as 1, 10 or 0.5, or max")
        }
        self.factor = factor
    }
}

/// A backoff on the command line: `immediate`, `constant:2s`, `linear:1s+1s`, `exponential:500ms..30s` or
/// `fibonacci:1s..60s`.
///
/// The duration after `..` is the maximum; without it delays grow without limit.
package struct BackoffArgument: Sendable {
    /// The parsed backoff, without jitter.
    package let backoff: Backoff
    /// The text.
    package let text: String

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        guard let backoff = Self.parse(text) else {
            throw InvalidArgument(
                "not a backoff; next: write immediate, constant:2s, linear:1s+1s, exponential:500ms..30s or fibonacci:1s..60s")
        }
        (self.backoff, self.text) = (backoff, text)
    }

    private static func parse(_ text: String) -> Backoff? {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first else { return nil }
        guard parts.count == 2 else { return name == "immediate" ? .immediate : nil }
        let range = parts[1].split(separator: "..", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let first = range.first else { return nil }
        var maximum: Duration?
        if range.count == 2 {
            guard let limit = duration(range[1]) else { return nil }
            maximum = limit
        }
        switch name {
        case "constant": return maximum == nil ? duration(first).map(Backoff.constant) : nil
        case "exponential": return duration(first).map { .exponential(initial: $0, maximum: maximum) }
        case "fibonacci": return duration(first).map { .fibonacci(unit: $0, maximum: maximum) }
        case "linear":
            let terms = first.split(separator: "+", omittingEmptySubsequences: false).map { duration(String($0)) }
            guard terms.count == 2, let initial = terms[0], let increment = terms[1] else { return nil }
            return .linear(initial: initial, increment: increment, maximum: maximum)
        default: return nil
        }
    }

    private static func duration(_ text: String) -> Duration? { (try? DurationArgument(text))?.duration }
}

/// A set of exit codes on the command line: `2`, `2,64` or `2,64,70-79`.
package struct ExitCodesArgument: Hashable, Sendable {
    /// The text.
    package let text: String
    private let ranges: [ClosedRange<Int32>]

    /// Parses the text.
    package init(_ text: String) throws(InvalidArgument) {
        var ranges: [ClosedRange<Int32>] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let range = Self.range(part) else {
                throw InvalidArgument("not a list of exit codes; next: write numbers from 1 to 255, as in 2,64,70-79")
            }
            ranges.append(range)
        }
        (self.ranges, self.text) = (ranges, text)
    }

    /// Returns `true` if the set contains a code.
    package func contains(_ code: Int32) -> Bool { ranges.contains { $0.contains(code) } }

    private static func range(_ text: Substring) -> ClosedRange<Int32>? {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map(code)
        guard let first = ends.first, let lower = first else { return nil }
        switch ends.count {
        case 1: return lower...lower
        case 2: return ends[1].flatMap { lower <= $0 ? lower...$0 : nil }
        default: return nil
        }
    }

    private static func code(_ text: Substring) -> Int32? {
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let code = Int32(text),
            (1...255).contains(code)
        else { return nil }
        return code
    }
}

/// The error of an argument that cannot be parsed.
package struct InvalidArgument: Error, Hashable, CustomStringConvertible {
    /// The mistake and, after `next:`, the correct form.
    package let description: String

    package init(_ description: String) { self.description = description }
}
