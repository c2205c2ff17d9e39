#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import FoundationNetworking
import NIOCore
import NIOHTTP1
import NIOSSL
import ReachableHTTP
import Testing

/// What the errors of async-http-client, and of what it is made of, stand for.
@Suite struct ClientErrorTests {
    private struct Foreign: Error {}

    private func code(_ error: any Error) -> URLError.Code? {
        ConnectionFault(error).errorCode.flatMap { URLError.Code(rawValue: $0) }
    }

    @Test func whatPasses() {
        let timeouts: [HTTPClientError] = [
            .connectTimeout, .tlsHandshakeTimeout, .socksHandshakeTimeout, .httpProxyHandshakeTimeout, .deadlineExceeded,
        ]
        for error in timeouts { #expect(ConnectionFault(error) == ConnectionFault(-1001), "\(error)") }
        for error in [HTTPClientError.readTimeout, .writeTimeout, .getConnectionFromPoolTimeout] {
            #expect(ConnectionFault(error) == ConnectionFault(-1001, systemError: EAGAIN), "\(error)")
        }
        let lost: [any Error] = [
            HTTPClientError.remoteConnectionClosed, HTTPClientError.uncleanShutdown, ChannelError.eof,
            ChannelError.ioOnClosedChannel,
            ChannelError.alreadyClosed, ChannelError.inputClosed, ChannelError.outputClosed, HTTPParserError.invalidEOFState,
            NIOSSLError.uncleanShutdown,
        ]
        for error in lost { #expect(code(error) == .networkConnectionLost, "\(error)") }
        #expect(code(ChannelError.connectTimeout(.seconds(1))) == .timedOut)
        #expect(code(NIOSSLError.handshakeFailed(.syscallError)) == .secureConnectionFailed)
        #expect(code(HTTPClientError.invalidProxyResponse) == .badServerResponse)
        #expect(code(URLError(.badServerResponse)) == .badServerResponse)
        #expect(code(Foreign()) == .unknown)
    }

    @Test func theSystemsNumberIsKept() {
        #expect(
            ConnectionFault(IOError(errnoCode: ENETUNREACH, reason: "connect")) == ConnectionFault(-1009, systemError: ENETUNREACH))
        #expect(ConnectionFault(IOError(errnoCode: ECONNRESET, reason: "read")) == ConnectionFault(-1005, systemError: ECONNRESET))
    }

    @Test func whatLasts() {
        let errors: [any Error] = [
            HTTPClientError.invalidURL, HTTPClientError.emptyHost, HTTPClientError.unsupportedScheme("ftp"),
            HTTPClientError.alreadyShutdown, HTTPClientError.cancelled, HTTPClientError.bodyLengthMismatch,
            HTTPClientError.redirectLimitReached, HTTPClientError.redirectCycleDetected,
            HTTPClientError.proxyAuthenticationRequired,
            HTTPClientError.traceRequestWithBody, HTTPParserError.invalidStatus, NIOTooManyBytesError(maxBytes: 1),
            NIOSSLError.unableToValidateCertificate, NIOSSLExtraError.failedToValidateHostname,
            CocoaError(.fileReadNoSuchFile), NSError(domain: NSCocoaErrorDomain, code: 260),
        ]
        for error in errors {
            let fault = ConnectionFault(error)
            let failure = HTTPFailure(method: "GET", errorCode: fault.errorCode, systemError: fault.systemError, time: .zero)
            #expect(HTTPRetryClassifier.standard.opinion(on: failure) == .noOpinion, "\(error): \(fault)")
        }
    }
}
#endif
