internal import Glibc

/// A reader of the header `Retry-After` (RFC 9110, section 10.2.3).
public enum RetryAfter {
    /// Returns the delay that a server orders, or `nil` if the value is neither a number of seconds nor a date.
    ///
    /// Of several values, which clients join with commas, the longest delay counts. Dates may have any of HTTP's three forms. A
    /// date in the past is no delay. A number that does not fit is treated as the maximum. Safe to call from any thread.
    ///
    /// - Parameters:
    ///   - value: The header's value.
    ///   - now: The time since the beginning of 1970 in UTC.
    ///   - maximum: The longest delay to return; negative values are treated as zero.
    public static func delay(_ value: String, now: Duration, maximum: Duration = .seconds(86_400)) -> Duration? {
        let parts = value.split(separator: ",")
        // A date may have a comma, too.
        let pairs = zip(parts, parts.dropFirst()).map { "\($0),\($1)" }
        return (parts.map(String.init) + pairs).compactMap { single($0, now: now, maximum: max(.zero, maximum)) }.max()
    }

    private static func single(_ value: String, now: Duration, maximum: Duration) -> Duration? {
        let text = trimmed(value)
        if !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            return Int64(text).map { min(.seconds($0), maximum) } ?? maximum
        }
        guard let date = HTTPDate.seconds(text, now: now.components.seconds) else { return nil }
        // Whole seconds first: the clock may show any time, and durations overflow.
        let (seconds, isOver) = date.subtractingReportingOverflow(now.components.seconds)
        if isOver { return now < .zero ? maximum : .zero }
        return min(
            max(.zero, .seconds(seconds) - Duration(secondsComponent: 0, attosecondsComponent: now.components.attoseconds)), maximum
        )
    }

    private static func trimmed(_ value: String) -> String {
        func isSpace(_ character: Character) -> Bool { character == " " || character == "\t" }
        let start = value.drop(while: isSpace)
        return String(start.reversed().drop(while: isSpace).reversed())
    }
}

/// A reader of dates in the three forms that a recipient has to understand (RFC 9110, section 5.6.7).
///
/// Names are case-sensitive. The name of the day is not compared with the date. A leap second counts as the second after it.
package enum HTTPDate {
    /// Returns the seconds since the beginning of 1970 in UTC, or `nil` if the text is no date of HTTP.
    ///
    /// - Parameters:
    ///   - text: The date.
    ///   - now: The time in seconds since the beginning of 1970. A year of two digits is the last one that is at most fifty years
    ///     after it.
    package static func seconds(_ text: String, now: Int64) -> Int64? {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        return switch (words.count, text.utf8.count { $0 == UInt8(ascii: " ") }) {
        case (6, 5): preferred(words)
        case (4, 3): obsolete(words, now: now)
        case (5, 4): asctime(words, digitsOfDay: 2)
        // A second space stands for the first digit of the day.
        case (5, 5): asctime(words, digitsOfDay: 1)
        default: nil
        }
    }

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`.
    private static func preferred(_ words: [Substring]) -> Int64? {
        guard days.contains(where: { words[0] == $0.prefix(3) + "," }), words[5] == "GMT" else { return nil }
        return seconds(year: number(words[3], digits: 4), words[2], number(words[1], digits: 2), words[4])
    }

    /// Reads `Sunday, 06-Nov-94 08:49:37 GMT`.
    private static func obsolete(_ words: [Substring], now: Int64) -> Int64? {
        let parts = words[1].split(separator: "-", omittingEmptySubsequences: false)
        guard days.contains(where: { words[0] == $0 + "," }), parts.count == 3, let year = number(parts[2], digits: 2),
            words[3] == "GMT"
        else { return nil }
        var (now, latest) = (time_t(min(max(now, representable.lowerBound), representable.upperBound)), tm())
        gmtime_r(&now, &latest)
        latest.tm_year += 50
        let century = (latest.tm_year + 1900) / 100 * 100
        let limit = timegm(&latest)
        // The 29th of February may exist in one of the centuries only.
        return [century + year, century + year - 100].lazy
            .compactMap { seconds(year: $0, parts[1], number(parts[0], digits: 2), words[2]) }.first { $0 <= limit }
    }

    /// Reads `Sun Nov  6 08:49:37 1994`.
    private static func asctime(_ words: [Substring], digitsOfDay: Int) -> Int64? {
        guard days.contains(where: { words[0] == $0.prefix(3) }) else { return nil }
        return seconds(year: number(words[4], digits: 4), words[1], number(words[2], digits: digitsOfDay), words[3])
    }

    private static func seconds(year: Int32?, _ month: Substring, _ day: Int32?, _ time: Substring) -> Int64? {
        let time = time.split(separator: ":", omittingEmptySubsequences: false).map { number($0, digits: 2) }
        guard let year, 0...9999 ~= year, let month = months.firstIndex(of: month), let day, time.count == 3,
            let hour = time[0], let minute = time[1], let second = time[2], hour < 24, minute < 60, second <= 60
        else { return nil }
        var date = tm()
        (date.tm_year, date.tm_mon, date.tm_mday) = (year - 1900, Int32(month), day)
        let midnight = timegm(&date)
        // timegm(3) makes a day of March of the 30th of February.
        guard date.tm_mday == day else { return nil }
        return Int64(midnight) + Int64(hour * 3600 + minute * 60 + second)
    }

    /// Reads a number of exactly so many ASCII digits.
    private static func number(_ text: Substring, digits: Int) -> Int32? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return Int32(text)
    }

    private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    private static let months: [Substring] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    /// The years from 0 to 9999.
    private static let representable: ClosedRange<Int64> = -62_167_219_200...253_402_300_799
}
