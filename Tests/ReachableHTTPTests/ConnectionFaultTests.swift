import Foundation
import FoundationNetworking
import ReachableHTTP
import Testing

/// The translation of the system's errors to codes of `URLError`.
@Suite struct ConnectionFaultTests {
    @Test func systemErrorsHaveCodes() {
        let names: [(URLError.Code, [Int32])] = [
            (.notConnectedToInternet, [ENETDOWN, ENETUNREACH]), (.timedOut, [ETIMEDOUT]),
            (.cannotConnectToHost, [EADDRNOTAVAIL, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH]),
            (.networkConnectionLost, [EPIPE, ENETRESET, ECONNABORTED, ECONNRESET, ENOTCONN, ESHUTDOWN]),
        ]
        for number in Int32(-11)...133 {
            let code = names.first { $0.1.contains(number) }?.0 ?? .unknown
            let wasSent: Bool? = [EADDRNOTAVAIL, ECONNREFUSED, EMFILE, ENFILE].contains(number) ? false : nil
            let expected = ConnectionFault(code.rawValue, systemError: number, wasSent: wasSent)
            #expect(ConnectionFault(systemError: number) == expected, "\(number)")
            #expect(ConnectionFault(systemError: number, isConnecting: true).wasSent == false, "\(number)")
        }
    }

    /// All of them are followed by another attempt, and the bus classifies by the number.
    @Test func systemErrorsAreClassified() {
        for number in [ENETUNREACH, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ETIMEDOUT, EMFILE] {
            let fault = ConnectionFault(systemError: number)
            func decision(_ method: String) -> HTTPRetryDecision {
                HTTPRetryClassifier.standard.decision(
                    for: HTTPFailure(
                        method: method, errorCode: fault.errorCode, systemError: fault.systemError, wasSent: fault.wasSent,
                        time: .zero))
            }
            #expect(decision("GET") == .retry)
            let isEarly = [ECONNREFUSED, EMFILE].contains(number)
            #expect(decision("POST") == (isEarly ? .retry : .undecided), "there may have been a connection")
        }
        let unlisted = HTTPRetryClassifier(errorCodes: [-1005])
        let refused = HTTPFailure(method: "GET", errorCode: -1004, systemError: ECONNREFUSED, time: .zero)
        #expect(unlisted.decision(for: refused) == .undecided, "the caller's list has codes")
    }

    @Test(arguments: [
        (of: [], is: nil as Int32?), (of: [ENETUNREACH], is: ENETUNREACH), (of: [ENETUNREACH, ECONNREFUSED], is: ECONNREFUSED),
        (of: [EHOSTUNREACH, ECONNREFUSED], is: ECONNREFUSED), (of: [ENETUNREACH, EHOSTUNREACH], is: EHOSTUNREACH),
        (of: [ENETDOWN, ENETUNREACH], is: ENETDOWN), (of: [ETIMEDOUT, ENETUNREACH, EHOSTUNREACH], is: ETIMEDOUT),
    ])
    func mostSpecificFaultCounts(of numbers: [Int32], is number: Int32?) {
        #expect(ConnectionFault(anyOf: numbers.map { ConnectionFault(systemError: $0) })?.systemError == number)
    }

    @Test func timeoutCountsMoreThanMissingRoute() {
        #expect(ConnectionFault(anyOf: [ConnectionFault(systemError: ENETUNREACH), ConnectionFault(-1001)])?.errorCode == -1001)
    }
}
