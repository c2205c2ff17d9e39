/// A length of time as it is written on the command line: `250ms`, `2s`, `1.5s`, `5m`, `1h`.
struct DurationArgument: Hashable {
    /// Whatever is longer counts as this long, so that no later sum can overflow.
    static let longest = Duration.seconds(100 * 365 * 86_400)

    /// The length.
    let duration: Duration

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        guard let duration = Self.parse(text) else {
            throw InvalidArgument("a duration is a number and a unit, without a space: 250ms, 2s, 1.5s, 5m or 1h")
        }
        self.duration = duration
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
        default: nil
        }
    }

    /// The number that the digits make, at most `Int64.max`.
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

    /// The nanoseconds that the digits behind the point make.
    ///
    /// What is below a nanosecond is dropped.
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
