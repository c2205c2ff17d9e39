import Glibc
import ReachableRetry
import Testing

/// Checks the core's error numbers against the C library's.
struct FailureReportTests {
    private static let meanings: [Int32: FailureReport] = [
        ENETUNREACH: .unreachable, ENETDOWN: .unreachable,
        EHOSTUNREACH: .unanswered, ETIMEDOUT: .timedOut, EAI_AGAIN: .noNameServer, ECONNREFUSED: .refused,
        EADDRNOTAVAIL: .noSourceAddress,
        EMFILE: .shortage, ENFILE: .shortage, ENOMEM: .shortage, ENOBUFS: .shortage, ETXTBSY: .shortage, EAGAIN: .shortage,
    ]

    @Test func networkErrorNumbersAreClassified() {
        for (number, meaning) in Self.meanings { #expect(FailureReport(systemError: number) == meaning, "\(number)") }
    }

    @Test func allOtherNumbersAreUnclassified() {
        let others = [ECONNRESET, EPIPE, EAI_NONAME, EAI_FAIL, -ENETUNREACH, -EAI_AGAIN, .min, .max] + Array(-300...300)
        for number in others where Self.meanings[number] == nil {
            #expect(FailureReport(systemError: number) == .unclassified, "\(number)")
        }
    }
}
