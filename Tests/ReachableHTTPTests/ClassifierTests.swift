import Foundation
import FoundationNetworking
import ReachableRetry
import Testing

@testable import ReachableHTTP

/// The failures that are followed by another attempt.
@Suite struct ClassifierTests {
    private func decision(
        _ method: String = "GET", _ status: Int? = nil, _ headers: [String: String] = [:], code: URLError.Code? = nil,
        isIdempotent: Bool = false, by classifier: HTTPRetryClassifier = .standard
    ) -> HTTPRetryDecision {
        classifier.decision(
            for: HTTPFailure(
                method: method, isIdempotent: isIdempotent, status: status, headers: headers, errorCode: code?.rawValue, time: .zero
            ))
    }

    @Test func onlyIdempotentMethodsAreRetried() {
        for method in ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"] {
            #expect(decision(method, 500) == .retry, "\(method)")
            #expect(decision(method, code: .networkConnectionLost) == .retry, "\(method)")
        }
        for method in ["POST", "PATCH", "CONNECT", "get", "", "PROPFIND"] {
            #expect(decision(method, 500) == .undecided && decision(method, 503) == .undecided, "\(method)")
            #expect(decision(method, code: .networkConnectionLost) == .undecided, "\(method)")
            #expect(decision(method, 500, isIdempotent: true) == .retry, "\(method)")
            #expect(decision(method, code: .timedOut, isIdempotent: true) == .retry, "\(method)")
        }
    }

    @Test func unsentRequestIsRepeatedWithAnyMethod() {
        for code in [URLError.Code.cannotFindHost, .cannotConnectToHost, .dnsLookupFailed] {
            #expect(decision("POST", code: code) == .retry, "\(code)")
        }
        for status in [421, 425] { #expect(decision("POST", status) == .retry, "\(status)") }
        #expect(decision("POST", 429) == .retryAs(.overload(retryAfter: nil)))
        #expect(decision("POST", code: .timedOut) == .undecided, "URLSession does not report if there was a connection")
        let unsent = HTTPFailure(method: "POST", errorCode: URLError.Code.timedOut.rawValue, wasSent: false, time: .zero)
        #expect(HTTPRetryClassifier.standard.decision(for: unsent) == .retry, "without a connection nothing was sent")
        let sent = HTTPFailure(method: "POST", errorCode: URLError.Code.cannotConnectToHost.rawValue, wasSent: true, time: .zero)
        #expect(HTTPRetryClassifier.standard.decision(for: sent) == .undecided)
    }

    @Test func transientStatusesAreRetried() {
        for status in 100...599 {
            let expected: HTTPRetryDecision =
                switch status {
                case 408, 421, 425, 500, 502, 504: .retry
                case 429, 503: .retryAs(.overload(retryAfter: nil))
                default: .undecided
                }
            #expect(decision("GET", status) == expected, "\(status)")
        }
    }

    @Test func transientErrorsAreRetried() {
        let passing: [URLError.Code] = [
            .backgroundSessionInUseByAnotherProcess, .backgroundSessionWasDisconnected, .badServerResponse, .callIsActive,
            .cannotConnectToHost, .cannotFindHost, .cannotLoadFromNetwork, .dataNotAllowed, .dnsLookupFailed,
            .downloadDecodingFailedMidStream, .downloadDecodingFailedToComplete, .internationalRoamingOff, .networkConnectionLost,
            .notConnectedToInternet, .secureConnectionFailed, .serverCertificateHasBadDate, .serverCertificateNotYetValid,
            .timedOut,
        ]
        #expect(Set(passing.map(\.rawValue)) == HTTPRetryClassifier.passingErrorCodes && passing.count == 18)
        for code in -4000...0 {
            let isListed = HTTPRetryClassifier.passingErrorCodes.contains(code) || code == URLError.Code.unknown.rawValue
            #expect((decision(code: URLError.Code(rawValue: code)) != .undecided) == isListed, "\(code)")
        }
        let lasting: [URLError.Code] = [
            .appTransportSecurityRequiresSecureConnection, .badURL, .cancelled, .cannotCloseFile, .cannotCreateFile,
            .cannotDecodeContentData, .cannotDecodeRawData, .cannotMoveFile, .cannotOpenFile, .cannotParseResponse,
            .cannotRemoveFile, .cannotWriteToFile, .clientCertificateRejected, .clientCertificateRequired,
            .dataLengthExceedsMaximum,
            .fileDoesNotExist, .fileIsDirectory, .httpTooManyRedirects, .noPermissionsToReadFile,
            .redirectToNonExistentLocation, .requestBodyStreamExhausted, .resourceUnavailable, .serverCertificateHasUnknownRoot,
            .serverCertificateUntrusted, .unsupportedURL, .userAuthenticationRequired, .userCancelledAuthentication,
            .zeroByteResource,
        ]
        for code in lasting { #expect(decision(code: code) == .undecided, "\(code)") }
    }

    /// The bus combines it with the state of the network.
    @Test func errorCodeDeterminesEvidence() {
        func evidence(_ code: URLError.Code, wasSent: Bool? = nil) -> FailureReport.Evidence {
            HTTPFailure(method: "GET", errorCode: code.rawValue, wasSent: wasSent, time: .zero).evidence
        }
        #expect(evidence(.cannotConnectToHost) == .refused)
        #expect(evidence(.cannotFindHost) == .unanswered && evidence(.dnsLookupFailed) == .unanswered)
        #expect(evidence(.timedOut) == .timedOut && evidence(.timedOut, wasSent: false) == .timedOut)
        #expect(evidence(.timedOut, wasSent: true) == .unclassified, "silence may have any reason")
        #expect(evidence(.notConnectedToInternet) == .unreachable)
        #expect(evidence(.unknown) == .unclassified && evidence(.networkConnectionLost) == .unclassified)
        #expect(evidence(.unknown, wasSent: false) == .unanswered, "no route, or no answer on the way")
    }

    @Test func systemErrorPrecedesErrorCode() {
        for (number, expected) in [
            (ENETUNREACH, FailureReport.Evidence.unreachable), (EHOSTUNREACH, .unanswered), (ECONNREFUSED, .refused),
            (ETIMEDOUT, .timedOut), (EADDRNOTAVAIL, .noSourceAddress), (EMFILE, .shortage), (ENOBUFS, .shortage),
            (ECONNRESET, .unclassified),
        ] {
            let failure = HTTPFailure(
                method: "GET", errorCode: URLError.Code.cannotConnectToHost.rawValue, systemError: number, time: .zero)
            #expect(failure.evidence == expected, "\(number)")
        }
    }

    @Test func retryAfterIsObeyed() {
        #expect(decision("GET", 503, ["Retry-After": "30"]) == .retryAs(.overload(retryAfter: .seconds(30))))
        let nine = decision("GET", 429, ["retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"])
        #expect(nine == .retryAs(.overload(retryAfter: .seconds(9))))
        #expect(decision("GET", 503, ["Retry-After": "soon"]) == .retryAs(.overload(retryAfter: nil)))
        #expect(decision("GET", 404, ["Retry-After": "30"]) == .undecided)
        let limited = decision("GET", 403, ["Retry-After": "30"])
        #expect(limited == .retryAs(.overload(retryAfter: .seconds(30))), "as APIs answer too many requests")
        #expect(decision("GET", 403) == .undecided && decision("GET", 403, ["Retry-After": "soon"]) == .undecided)
        #expect(decision("POST", 403, ["Retry-After": "30"]) == .undecided, "it may have been carried out")
        func ordered(_ status: Int, by classifier: HTTPRetryClassifier = .standard) -> FailureReport {
            classifier.report(on: HTTPFailure(method: "GET", status: status, headers: ["Retry-After": "30"], time: .zero))
        }
        #expect(ordered(500) == FailureReport(.classified(.server), retryAfter: .seconds(30)))
        #expect(ordered(408).retryAfter == .seconds(30) && ordered(404).retryAfter == nil)
        let hasty = HTTPRetryClassifier(maximumRetryAfter: .seconds(5))
        #expect(ordered(500, by: hasty).retryAfter == .seconds(5))
        #expect(ordered(500, by: hasty.otherwise(.standard)).retryAfter == .seconds(5), "of the one that has decided")
        #expect(decision("GET", 503, ["Retry-After": "30"], by: hasty) == .retryAs(.overload(retryAfter: .seconds(5))))
    }

    @Test func callersSetsReplaceDefaults() {
        let own = HTTPRetryClassifier(methods: ["POST"], statuses: [418], errorCodes: [-1005])
        #expect(decision("POST", 418, by: own) == .retry)
        #expect(decision("GET", 418, by: own) == .undecided && decision("POST", 503, by: own) == .undecided)
        #expect(decision("POST", code: .networkConnectionLost, by: own) == .retry)
        #expect(decision("POST", code: .timedOut, by: own) == .undecided)
    }

    @Test func firstDecisionCounts() {
        let silent = HTTPRetryClassifier { _ in .undecided }
        let eager = HTTPRetryClassifier { _ in .retryAs(.overload(retryAfter: .seconds(2))) }
        let never = HTTPRetryClassifier { _ in .doNotRetry }
        let untold = HTTPRetryClassifier { _ in
            Issue.record("an earlier classifier has decided")
            return .undecided
        }
        #expect(decision("GET", 503, by: silent.otherwise(eager).otherwise(untold)) == .retryAs(.overload(retryAfter: .seconds(2))))
        #expect(decision("GET", 503, by: silent.otherwise(eager.otherwise(untold))) == .retryAs(.overload(retryAfter: .seconds(2))))
        #expect(decision("GET", 503, by: never.otherwise(untold)) == .doNotRetry)
        #expect(decision("GET", 500, by: silent.otherwise(.standard)) == .retry)
        #expect(decision("GET", 404, by: silent.otherwise(.standard)) == .undecided)
    }
}
