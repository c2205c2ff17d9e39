import Glibc

/// A moment in the proleptic Gregorian calendar.
struct CalendarTime: Hashable {
    private let year: Int64
    private let month: Int64
    private let day: Int64
    private let secondOfDay: Int64
    private let nanosecond: Int64

    /// The calendar's view of a time since 1970-01-01T00:00:00Z, as clocks show it that are ahead by `offset` seconds.
    ///
    /// Moments outside the years 0 to 9999, which RFC 3339 cannot write, count as the nearest one inside.
    init(_ time: Duration, offset: Int = 0) {
        let (whole, attoseconds) = time.components
        let (seconds, overflows) = (attoseconds < 0 ? whole - 1 : whole).addingReportingOverflow(Int64(offset))
        let clamped = min(max(overflows ? whole : seconds, -62_167_219_200), 253_402_300_799)
        nanosecond = (attoseconds < 0 ? attoseconds + 1_000_000_000_000_000_000 : attoseconds) / 1_000_000_000
        secondOfDay = (clamped % 86_400 + 86_400) % 86_400
        // Howard Hinnant's civil_from_days: years begin in March, so that the leap day is the last one.
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

    /// RFC 3339 with microseconds, for a moment in UTC: `2026-01-31T10:00:00.123456Z`.
    var rfc3339: String { "\(date)T\(clock).\(zeroPadded(nanosecond / 1000, 6))Z" }

    /// For people: `2026-01-31 10:00:00.123`.
    var plain: String { "\(date) \(clock).\(zeroPadded(nanosecond / 1_000_000, 3))" }

    private var date: String { "\(zeroPadded(year, 4))-\(zeroPadded(month, 2))-\(zeroPadded(day, 2))" }

    private var clock: String {
        let parts = [secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60]
        return parts.map { zeroPadded($0, 2) }.joined(separator: ":")
    }
}

/// A length of time for people: `250 ms`, `4.2 s`, `2 min 5 s`, `3 h 4 min`, `2 d 3 h`.
func elapsedText(_ duration: Duration) -> String {
    let duration = max(duration, .zero)
    let (seconds, attoseconds) = duration.components
    let milliseconds = attoseconds / 1_000_000_000_000_000
    switch seconds {
    case 0: return "\(milliseconds) ms"
    case 1..<60: return "\(seconds).\(milliseconds / 100) s"
    case 60..<3600: return "\(seconds / 60) min \(seconds % 60) s"
    case 3600..<86_400: return "\(seconds / 3600) h \(seconds / 60 % 60) min"
    default: return "\(seconds / 86_400) d \(seconds / 3600 % 24) h"
    }
}

/// How many seconds the clocks of the user's time zone (TZ, or /etc/localtime) are ahead of UTC at a moment (localtime_r(3)).
func localOffset(at time: Duration) -> Int {
    var seconds = time_t(time.components.seconds)
    var broken = tm()
    return localtime_r(&seconds, &broken) == nil ? 0 : broken.tm_gmtoff
}
