import Foundation
import FoundationNetworking
import ReachableHTTP
import ReachableRetry
import Testing

/// Which failures are followed by another attempt.
@Suite struct ClassifierTests {
    private func opinion(
        _ method: String = "GET", _ status: Int? = nil, _ headers: [String: String] = [:], code: URLError.Code? = nil,
        isIdempotent: Bool = false, by classifier: HTTPRetryClassifier = .standard
    ) -> HTTPRetryOpinion {
        classifier.opinion(
            on: HTTPFailure(
                method: method, isIdempotent: isIdempotent, status: status, headers: headers, errorCode: code?.rawValue, time: .zero
            ))
    }

    @Test func methods() {
        for method in ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"] {
            #expect(opinion(method, 503) == .retry(.server(retryAfter: nil)), "\(method)")
            #expect(opinion(method, code: .networkConnectionLost) == .retry(.transient), "\(method)")
        }
        for method in ["POST", "PATCH", "CONNECT", "get", "", "PROPFIND"] {
            #expect(opinion(method, 503) == .noOpinion, "\(method)")
            #expect(opinion(method, code: .cannotConnectToHost) == .noOpinion, "\(method)")
            #expect(opinion(method, 503, isIdempotent: true) == .retry(.server(retryAfter: nil)), "\(method)")
            #expect(opinion(method, code: .timedOut, isIdempotent: true) != .noOpinion, "\(method)")
        }
    }

    @Test func statuses() {
        for status in 100...599 {
            let isListed = [408, 429, 500, 502, 503, 504].contains(status)
            #expect(opinion("GET", status) == (isListed ? .retry(.server(retryAfter: nil)) : .noOpinion), "\(status)")
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

    /// What the network decides about is left to the bus, which knows what became of it.
    @Test func whoseFaultAnErrorIs() {
        #expect(opinion(code: .cannotConnectToHost) == .retryAsSystemError(ECONNREFUSED))
        #expect(opinion(code: .cannotFindHost) == .retryAsSystemError(EAI_AGAIN))
        #expect(opinion(code: .dnsLookupFailed) == .retryAsSystemError(EAI_AGAIN))
        #expect(opinion(code: .timedOut) == .retryAsSystemError(ETIMEDOUT))
        #expect(opinion(code: .notConnectedToInternet) == .retryAsSystemError(ENETUNREACH))
        #expect(opinion(code: .unknown) == .retry(.transient))
        #expect(opinion(code: .networkConnectionLost) == .retry(.transient))
    }

    @Test func theServersDelayIsHeeded() {
        #expect(opinion("GET", 503, ["Retry-After": "30"]) == .retry(.server(retryAfter: .seconds(30))))
        #expect(opinion("GET", 429, ["retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"]) == .retry(.server(retryAfter: .seconds(9))))
        #expect(opinion("GET", 503, ["Retry-After": "soon"]) == .retry(.server(retryAfter: nil)))
        #expect(opinion("GET", 404, ["Retry-After": "30"]) == .noOpinion)
        let hasty = HTTPRetryClassifier(maximumRetryAfter: .seconds(5))
        #expect(opinion("GET", 503, ["Retry-After": "30"], by: hasty) == .retry(.server(retryAfter: .seconds(5))))
    }

    @Test func theSetsAreTheCallers() {
        let own = HTTPRetryClassifier(methods: ["POST"], statuses: [418], errorCodes: [-1005])
        #expect(opinion("POST", 418, by: own) == .retry(.server(retryAfter: nil)))
        #expect(opinion("GET", 418, by: own) == .noOpinion && opinion("POST", 503, by: own) == .noOpinion)
        #expect(opinion("POST", code: .networkConnectionLost, by: own) == .retry(.transient))
        #expect(opinion("POST", code: .timedOut, by: own) == .noOpinion)
    }

    @Test func theFirstWithAnOpinionIsRight() {
        let silent = HTTPRetryClassifier { _ in .noOpinion }
        let eager = HTTPRetryClassifier { _ in .retry(.server(retryAfter: .seconds(2))) }
        let never = HTTPRetryClassifier { _ in .doNotRetry }
        let untold = HTTPRetryClassifier { _ in
            Issue.record("somebody had an opinion")
            return .noOpinion
        }
        #expect(opinion("GET", 503, by: silent.otherwise(eager).otherwise(untold)) == .retry(.server(retryAfter: .seconds(2))))
        #expect(opinion("GET", 503, by: silent.otherwise(eager.otherwise(untold))) == .retry(.server(retryAfter: .seconds(2))))
        #expect(opinion("GET", 503, by: never.otherwise(untold)) == .doNotRetry)
        #expect(opinion("GET", 503, by: silent.otherwise(.standard)) == .retry(.server(retryAfter: nil)))
        #expect(opinion("GET", 404, by: silent.otherwise(.standard)) == .noOpinion)
    }
}
