import Foundation
import FoundationNetworking
import ReachableRetry
import Testing

@testable import ReachableHTTP

/// Which failures are followed by another attempt.
@Suite struct ClassifierTests {
    private func opinion(
        _ method: String = "GET", _ status: Int? = nil, _ headers: [String: String] = [:], code: URLError.Code? = nil,
        isIdempotent: Bool = false, by classifier: HTTPRetryClassifier = .standard
    ) -> HTTPRetryDecision {
        classifier.opinion(
            on: HTTPFailure(
                method: method, isIdempotent: isIdempotent, status: status, headers: headers, errorCode: code?.rawValue, time: .zero
            ))
    }

    @Test func methods() {
        for method in ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"] {
            #expect(opinion(method, 500) == .retry, "\(method)")
            #expect(opinion(method, code: .networkConnectionLost) == .retry, "\(method)")
        }
        for method in ["POST", "PATCH", "CONNECT", "get", "", "PROPFIND"] {
            #expect(opinion(method, 500) == .noOpinion && opinion(method, 503) == .noOpinion, "\(method)")
            #expect(opinion(method, code: .networkConnectionLost) == .noOpinion, "\(method)")
            #expect(opinion(method, 500, isIdempotent: true) == .retry, "\(method)")
            #expect(opinion(method, code: .timedOut, isIdempotent: true) == .retry, "\(method)")
        }
    }

    @Test func aRequestThatWasNeverSentOrNotCarriedOutIsRepeatedWhateverItsMethod() {
        for code in [URLError.Code.cannotFindHost, .cannotConnectToHost, .dnsLookupFailed] {
            #expect(opinion("POST", code: code) == .retry, "\(code)")
        }
        for status in [421, 425] { #expect(opinion("POST", status) == .retry, "\(status)") }
        #expect(opinion("POST", 429) == .retryAs(.overload(retryAfter: nil)))
        #expect(opinion("POST", code: .timedOut) == .noOpinion, "URLSession does not tell if there was a connection")
        let unsent = HTTPFailure(method: "POST", errorCode: URLError.Code.timedOut.rawValue, wasSent: false, time: .zero)
        #expect(HTTPRetryClassifier.standard.opinion(on: unsent) == .retry, "a connection that took too long carried nothing")
        let sent = HTTPFailure(method: "POST", errorCode: URLError.Code.cannotConnectToHost.rawValue, wasSent: true, time: .zero)
        #expect(HTTPRetryClassifier.standard.opinion(on: sent) == .noOpinion)
    }

    @Test func statuses() {
        for status in 100...599 {
            let expected: HTTPRetryDecision =
                switch status {
                case 408, 421, 425, 500, 502, 504: .retry
                case 429, 503: .retryAs(.overload(retryAfter: nil))
                default: .noOpinion
                }
            #expect(opinion("GET", status) == expected, "\(status)")
        }
    }

    @Test func errors() {
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
            #expect((opinion(code: URLError.Code(rawValue: code)) != .noOpinion) == isListed, "\(code)")
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
        for code in lasting { #expect(opinion(code: code) == .noOpinion, "\(code)") }
    }

    /// The bus judges by it, together with what became of the network.
    @Test func codeTellsTheFault() {
        func evidence(_ code: URLError.Code, wasSent: Bool? = nil) -> FailureReport.Evidence {
            HTTPFailure(method: "GET", errorCode: code.rawValue, wasSent: wasSent, time: .zero).evidence
        }
        #expect(evidence(.cannotConnectToHost) == .refused)
        #expect(evidence(.cannotFindHost) == .unanswered && evidence(.dnsLookupFailed) == .unanswered)
        #expect(evidence(.timedOut) == .timedOut && evidence(.timedOut, wasSent: false) == .timedOut)
        #expect(evidence(.timedOut, wasSent: true) == .unclassified, "a silent server has any reason")
        #expect(evidence(.notConnectedToInternet) == .unreachable)
        #expect(evidence(.unknown) == .unclassified && evidence(.networkConnectionLost) == .unclassified)
        #expect(evidence(.unknown, wasSent: false) == .unanswered, "no route, or no answer on the way")
    }

    @Test func systemErrorTellsTheFaultBeforeTheCode() {
        for (number, expected) in [
            (ENETUNREACH, FailureReport.Evidence.unreachable), (EHOSTUNREACH, .unanswered), (ECONNREFUSED, .refused),
            (ETIMEDOUT, .timedOut), (EADDRNOTAVAIL, .addressless), (EMFILE, .shortage), (ENOBUFS, .shortage),
            (ECONNRESET, .unclassified),
        ] {
            let failure = HTTPFailure(
                method: "GET", errorCode: URLError.Code.cannotConnectToHost.rawValue, systemError: number, time: .zero)
            #expect(failure.evidence == expected, "\(number)")
        }
    }

    @Test func theServersDelayIsHeeded() {
        #expect(opinion("GET", 503, ["Retry-After": "30"]) == .retryAs(.overload(retryAfter: .seconds(30))))
        let nine = opinion("GET", 429, ["retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"])
        #expect(nine == .retryAs(.overload(retryAfter: .seconds(9))))
        #expect(opinion("GET", 503, ["Retry-After": "soon"]) == .retryAs(.overload(retryAfter: nil)))
        #expect(opinion("GET", 404, ["Retry-After": "30"]) == .noOpinion)
        let hasty = HTTPRetryClassifier(maximumRetryAfter: .seconds(5))
        #expect(opinion("GET", 503, ["Retry-After": "30"], by: hasty) == .retryAs(.overload(retryAfter: .seconds(5))))
    }

    @Test func theSetsAreTheCallers() {
        let own = HTTPRetryClassifier(methods: ["POST"], statuses: [418], errorCodes: [-1005])
        #expect(opinion("POST", 418, by: own) == .retry)
        #expect(opinion("GET", 418, by: own) == .noOpinion && opinion("POST", 503, by: own) == .noOpinion)
        #expect(opinion("POST", code: .networkConnectionLost, by: own) == .retry)
        #expect(opinion("POST", code: .timedOut, by: own) == .noOpinion)
    }

    @Test func theFirstWithAnOpinionIsRight() {
        let silent = HTTPRetryClassifier { _ in .noOpinion }
        let eager = HTTPRetryClassifier { _ in .retryAs(.overload(retryAfter: .seconds(2))) }
        let never = HTTPRetryClassifier { _ in .doNotRetry }
        let untold = HTTPRetryClassifier { _ in
            Issue.record("somebody had an opinion")
            return .noOpinion
        }
        #expect(opinion("GET", 503, by: silent.otherwise(eager).otherwise(untold)) == .retryAs(.overload(retryAfter: .seconds(2))))
        #expect(opinion("GET", 503, by: silent.otherwise(eager.otherwise(untold))) == .retryAs(.overload(retryAfter: .seconds(2))))
        #expect(opinion("GET", 503, by: never.otherwise(untold)) == .doNotRetry)
        #expect(opinion("GET", 500, by: silent.otherwise(.standard)) == .retry)
        #expect(opinion("GET", 404, by: silent.otherwise(.standard)) == .noOpinion)
    }
}
