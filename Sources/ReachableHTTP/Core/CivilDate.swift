/// A date of the Gregorian calendar and a second of its day, in UTC.
struct CivilDate {
    var year: Int64
    var month: Int64
    var day: Int64
    /// From 0; 86 400 is a leap second.
    var second: Int64

    /// Makes a date; `nil` if the calendar has no such day.
    init?(year: Int64, month: Int64, day: Int64, second: Int64) {
        guard (0...9999).contains(year), (1...12).contains(month), day >= 1, day <= Self.days(in: month, of: year),
            (0...86_400).contains(second)
        else { return nil }
        (self.year, self.month, self.day, self.second) = (year, month, day, second)
    }

    /// The date of a time, in seconds since the beginning of 1970; what lies outside the years 0 to 9999 counts as their ends.
    init(seconds: Int64) {
        // Years begin in March here, so that a leap day is the last of its year: the lengths of months follow a line.
        let seconds = min(max(seconds, -62_167_219_200), 253_402_300_799)
        let days = (seconds + Self.offset * 86_400) / 86_400
        second = (seconds + Self.offset * 86_400) % 86_400
        let era = days / 146_097
        let dayOfEra = days % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        // The offset reaches 400 years further back than the year 0.
        year = yearOfEra + era * 400 - 400 + (month <= 2 ? 1 : 0)
    }

    /// The seconds since the beginning of 1970.
    var seconds: Int64 {
        let year = year + 400 - (month <= 2 ? 1 : 0)
        let yearOfEra = year % 400
        let monthFromMarch = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return (year / 400 * 146_097 + dayOfEra - Self.offset) * 86_400 + second
    }

    func isBefore(_ other: CivilDate) -> Bool {
        (year, month, day, second) < (other.year, other.month, other.day, other.second)
    }

    /// The days from the 1st of March of the year -400 to the beginning of 1970.
    private static let offset: Int64 = 719_468 + 146_097

    private static func days(in month: Int64, of year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
