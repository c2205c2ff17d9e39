import Glibc

/// A time in the proleptic Gregorian calendar.
package struct CalendarTime: Hashable {
    private let year: Int64
    private let month: Int64
    private let day: Int64
    private let secondOfDay: Int64
    private let nanosecond: Int64

    /// Converts a time since 1970-01-01T00:00:00Z.
    ///
    /// Clamped to the years 0 to 9999, the range of RFC 3339.
    ///
    /// - Parameter offset: The offset of the local time from UTC in seconds.
    package init(_ time: Duration, offset: Int = 0) {
        let (whole, attoseconds) = time.components
        let (seconds, overflows) = (attoseconds < 0 ? whole - 1 : whole).addingReportingOverflow(Int64(offset))
        let clamped = min(max(overflows ? whole : seconds, -62_167_219_200), 253_402_300_799)
        nanosecond = (attoseconds < 0 ? attoseconds + 1_000_000_000_000_000_000 : attoseconds) / 1_000_000_000
        secondOfDay = (clamped % 86_400 + 86_400) % 86_400
        // Howard Hinnant's civil_from_days: years begin in March, which makes the leap day the last one.
        let days = (clamped - secondOfDay) / 86_400 + 719_468
        let era = (days >= 0 ? days : days - 146_096) / 146_097
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// The time as RFC 3339 with microseconds, for UTC: `2026-01-31T10:00:00.123456Z`.
    package var rfc3339: String { "\(date)T\(clock).\(zeroPadded(nanosecond / 1000, 6))Z" }

    /// The time for people: `2026-01-31 10:00:00.123`.
    package var plain: String { "\(date) \(clock).\(zeroPadded(nanosecond / 1_000_000, 3))" }

    private var date: String { "\(zeroPadded(year, 4))-\(zeroPadded(month, 2))-\(zeroPadded(day, 2))" }

    private var clock: String {
        let parts = [secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60]
        return parts.map { zeroPadded($0, 2) }.joined(separator: ":")
    }
}

extension CalendarTime {
    /// Returns the time since 1970-01-01T00:00:00Z of a date and time of RFC 3339; `nil` for another text.
    ///
    /// `2026-01-31T10:00:00.123456Z`, or with an offset such as `+01:00`. A leap second counts as the second after it.
    package static func time(rfc3339 text: String) -> Duration? {
        var rest = Array(text.utf8)[...]
        func number(_ digits: Int, _ range: ClosedRange<Int64>) -> Int64? {
            let taken = rest.prefix(digits)
            guard taken.count == digits, taken.allSatisfy({ (48...57).contains($0) }) else { return nil }
            rest = rest.dropFirst(digits)
            let value = taken.reduce(0) { $0 * 10 + Int64($1 - 48) }
            return range.contains(value) ? value : nil
        }
        func skip(_ characters: String) -> Bool {
            guard let next = rest.first, characters.utf8.contains(next) else { return false }
            rest = rest.dropFirst()
            return true
        }
        guard let year = number(4, 0...9999), skip("-"), let month = number(2, 1...12), skip("-"),
            let day = number(2, 1...lastDay(of: month, in: year)), skip("Tt"),
            let hour = number(2, 0...23), skip(":"), let minute = number(2, 0...59), skip(":"), let second = number(2, 0...60)
        else { return nil }
        var nanoseconds: Int64 = 0
        if skip(".") {
            let digits = rest.prefix { (48...57).contains($0) }
            guard !digits.isEmpty else { return nil }
            rest = rest.dropFirst(digits.count)
            nanoseconds = zip(digits, [100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1] as [Int64])
                .reduce(0) { $0 + Int64($1.0 - 48) * $1.1 }
        }
        var offset: Int64 = 0
        if !skip("Zz") {
            let isWest = rest.first == UInt8(ascii: "-")
            guard skip("+-"), let hours = number(2, 0...23), skip(":"), let minutes = number(2, 0...59) else { return nil }
            offset = (hours * 3600 + minutes * 60) * (isWest ? -1 : 1)
        }
        guard rest.isEmpty else { return nil }
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
        return .seconds(seconds) + .nanoseconds(nanoseconds)
    }

    /// Returns the days from 1970-01-01 to a date (Howard Hinnant's days_from_civil).
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func lastDay(of month: Int64, in year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// Returns a duration for people, rounded down: `1.23ms`, `250ms`, `4.2s`, `2m 5s`, `3h 4m`, `2d 3h`.
///
/// Negative durations count as zero.
package func durationText(_ duration: Duration) -> String {
    let hundredths = Int64(clamping: max(duration, .zero).attoseconds / 10_000_000_000_000)
    let (milliseconds, seconds) = (hundredths / 100, hundredths / 100_000)
    switch seconds {
    case 0 where milliseconds < 10: return decimal(milliseconds, hundredths % 100, digits: 2) + "ms"
    case 0: return "\(milliseconds)ms"
    case ..<60: return decimal(seconds, milliseconds / 100 % 10, digits: 1) + "s"
    case ..<3600: return pair(seconds / 60, "m", seconds % 60, "s")
    case ..<86_400: return pair(seconds / 3600, "h", seconds / 60 % 60, "m")
    default: return pair(seconds / 86_400, "d", seconds / 3600 % 24, "h")
    }
}

/// Returns a number with a fraction; without one if it is zero.
private func decimal(_ whole: Int64, _ fraction: Int64, digits: Int) -> String {
    fraction == 0 ? "\(whole)" : "\(whole).\(zeroPadded(fraction, digits))"
}

/// Returns two units; the first one alone if the second is zero.
private func pair(_ first: Int64, _ unit: String, _ second: Int64, _ smallerUnit: String) -> String {
    "\(first)\(unit)" + (second == 0 ? "" : " \(second)\(smallerUnit)")
}

/// Returns the offset of local time (TZ, or /etc/localtime) from UTC in seconds (localtime_r(3)).
package func localOffset(at time: Duration) -> Int {
    var seconds = time_t(time.components.seconds)
    var broken = tm()
    return localtime_r(&seconds, &broken) == nil ? 0 : broken.tm_gmtoff
}
