/// Reads the header field `Retry-After` (RFC 9110, section 10.2.3).
public enum RetryAfter {
    /// How long a server wants to be left alone; `nil` if it does not say so in a way that can be understood.
    ///
    /// A number of seconds, or a date in any of HTTP's three forms. A date that has passed is no delay at all, and a number that is
    /// too big for anything is the maximum. Pure, and safe to call from any thread.
    ///
    /// - Parameters:
    ///   - value: the field's value.
    ///   - now: the time, since the beginning of 1970 in UTC.
    ///   - maximum: what is longer is cut to this; below zero it counts as zero.
    public static func delay(_ value: String, now: Duration, maximum: Duration = .seconds(86_400)) -> Duration? {
        let text = trimmed(value)
        let maximum = max(.zero, maximum)
        if !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // Nothing but digits: what does not fit is too big.
            return Int64(text).map { min(.seconds($0), maximum) } ?? maximum
        }
        guard let date = HTTPDate.seconds(text, now: now.components.seconds) else { return nil }
        // Subtracted as whole numbers first: a clock may show anything.
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
