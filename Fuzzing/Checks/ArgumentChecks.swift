import ReachableRetry

// In the package of the fuzzers, the sources of the arguments are part of this module.
#if canImport(reachability_watch)
@testable import CommandKit
@testable import reachability_watch
#endif

/// The rules for a word on the command line that is parsed as a duration, a backoff or exit codes.
enum ArgumentChecks {
    static func check(_ bytes: [UInt8]) throws(Finding) {
        let text = String(decoding: bytes, as: UTF8.self)
        if let duration = try? DurationArgument(text).duration { try check(duration) }
        if let backoff = try? BackoffArgument(text).backoff { try check(backoff) }
        if let codes = try? ExitCodesArgument(text) { try check(codes) }
    }

    private static func check(_ duration: Duration) throws(Finding) {
        try Finding.check((.zero...DurationArgument.longest).contains(duration), "\(duration) is out of bounds")
        let (seconds, attoseconds) = duration.components
        let digits = String(attoseconds / 1_000_000_000)
        let written = "\(seconds).\(String(repeating: "0", count: 9 - digits.count))\(digits)s"
        try Finding.check((try? DurationArgument(written).duration) == duration, "\(duration) is written \(written)")
    }

    private static func check(_ backoff: Backoff) throws(Finding) {
        var random = SystemRandomNumberGenerator()
        var last = Duration.zero
        for failure in [1, 2, 3, 10, 100, 10_000, Int.max] {
            let delay = backoff.delay(afterFailure: failure, using: &random)
            try Finding.check(delay >= last, "after failure \(failure) the delay shrinks to \(delay)")
            try Finding.check(backoff.maximum.map { delay <= $0 } ?? true, "after failure \(failure) the delay is \(delay)")
            last = delay
        }
    }

    private static func check(_ codes: ExitCodesArgument) throws(Finding) {
        let members = (0...256).filter { codes.contains(Int32($0)) }
        try Finding.check(!members.isEmpty && !members.contains(0) && !members.contains(256), "the codes are \(members)")
        let written = members.map { "\($0)" }.joined(separator: ",")
        let again = try? ExitCodesArgument(written)
        try Finding.check((0...256).filter { again?.contains(Int32($0)) == true } == members, "the codes are written \(written)")
    }
}
