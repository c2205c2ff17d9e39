/// A point in time as HTTP writes it, in each of the three ways that a recipient has to understand (RFC 9110, section 5.6.7).
///
/// Names are read as they are written there, and a day's name may be wrong: nothing depends on it. A leap second is the one after.
package enum HTTPDate {
    /// The seconds since the beginning of 1970 in UTC; `nil` if this is no date of HTTP.
    ///
    /// - Parameter now: the time, in seconds since the beginning of 1970. It decides which century a year of two digits is in: the
    ///   last one that does not put the date more than fifty years into the future.
    package static func seconds(_ text: String, now: Int64) -> Int64? {
        let space = UInt8(ascii: " ")
        let words = text.utf8.split(separator: space, omittingEmptySubsequences: true).map(Word.init)
        return switch (words.count, text.utf8.count { $0 == space }) {
        case (6, 5): preferred(words)
        case (4, 3): obsolete(words, now: now)
        case (5, 4): traditional(words, digitsOfDay: 2)
        // A day of one digit has a second space where its first digit would be.
        case (5, 5): traditional(words, digitsOfDay: 1)
        default: nil
        }
    }

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`.
    private static func preferred(_ words: [Word]) -> Int64? {
        guard days.contains(where: { words[0].text == $0.prefix(3) + "," }), let day = words[1].number(digits: 2),
            let month = words[2].month, let year = words[3].number(digits: 4), let time = words[4].time, words[5].text == "GMT"
        else { return nil }
        return CivilDate(year: year, month: month, day: day, second: time)?.seconds
    }

    /// Reads `Sunday, 06-Nov-94 08:49:37 GMT`.
    private static func obsolete(_ words: [Word], now: Int64) -> Int64? {
        let parts = words[1].parts(separator: "-")
        guard days.contains(where: { words[0].text == $0 + "," }), parts.count == 3, let day = parts[0].number(digits: 2),
            let month = parts[1].month, let year = parts[2].number(digits: 2), let time = words[2].time, words[3].text == "GMT"
        else { return nil }
        var latest = CivilDate(seconds: now)
        latest.year += 50
        let century = latest.year - latest.year % 100
        // The 29th of February may exist in one of the centuries only.
        for candidate in [century + year, century + year - 100] {
            guard let date = CivilDate(year: candidate, month: month, day: day, second: time) else { continue }
            if !latest.isBefore(date) { return date.seconds }
        }
        return nil
    }

    /// Reads `Sun Nov  6 08:49:37 1994`.
    private static func traditional(_ words: [Word], digitsOfDay: Int) -> Int64? {
        guard days.contains(where: { words[0].text == $0.prefix(3) }), let month = words[1].month,
            let day = words[2].number(digits: digitsOfDay), let time = words[3].time, let year = words[4].number(digits: 4)
        else { return nil }
        return CivilDate(year: year, month: month, day: day, second: time)?.seconds
    }

    private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
}

/// A word of a date.
private struct Word {
    let text: String

    init(_ bytes: Substring.UTF8View) { text = String(Substring(bytes)) }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    var month: Int64? { Self.months.firstIndex(of: text).map { Int64($0) + 1 } }

    /// The second of the day.
    var time: Int64? {
        let parts = parts(separator: ":").map { $0.number(digits: 2) }
        guard parts.count == 3, let hour = parts[0], let minute = parts[1], let second = parts[2] else { return nil }
        guard hour < 24, minute < 60, second <= 60 else { return nil }
        return hour * 3600 + minute * 60 + second
    }

    /// A number of exactly so many digits.
    func number(digits: Int) -> Int64? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return Int64(text)
    }

    func parts(separator: Character) -> [Word] {
        text.split(separator: separator, omittingEmptySubsequences: false).map { Word($0.utf8) }
    }
}
