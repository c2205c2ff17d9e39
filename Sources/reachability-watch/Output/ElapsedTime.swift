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
