#if AsyncHTTPClient
import AsyncHTTPClient
import Foundation
import FoundationNetworking
import NIOCore
import NIOHTTP1
import NIOSSL
import ReachableHTTP
import Testing

/// The translation of errors of async-http-client and the libraries below it.
@Suite struct ClientErrorTests {
    private struct Foreign: Error {}

    private func code(_ error: any Error) -> URLError.Code? {
        ConnectionFault(error).errorCode.flatMap { URLError.Code(rawValue: $0) }
    }

    private func decision(_ method: String, on error: any Error) -> HTTPRetryDecision {
        let fault = ConnectionFault(error)
        return HTTPRetryClassifier.standard.decision(
            for: HTTPFailure(
                method: method, errorCode: fault.errorCode, systemError: fault.systemError, wasSent: fault.wasSent, time: .zero))
    }

    @Test func transientErrorsHaveCodes() {
        #expect(ConnectionFault(HTTPClientError.deadlineExceeded) == ConnectionFault(-1001))
        let lost: [any Error] = [
            HTTPClientError.remoteConnectionClosed, HTTPClientError.uncleanShutdown, ChannelError.eof,
            ChannelError.ioOnClosedChannel,
            ChannelError.alreadyClosed, ChannelError.inputClosed, ChannelError.outputClosed, HTTPParserError.invalidEOFState,
            NIOSSLError.uncleanShutdown,
        ]
        for error in lost { #expect(code(error) == .networkConnectionLost, "\(error)") }
        #expect(code(URLError(.badServerResponse)) == .badServerResponse)
        #expect(code(Foreign()) == .unknown)
    }

    @Test func errorShowsThatRequestWasUnsent() {
        let unsent: [(any Error, ConnectionFault)] = [
            (HTTPClientError.connectTimeout, ConnectionFault(-1001, wasSent: false)),
            (HTTPClientError.tlsHandshakeTimeout, ConnectionFault(-1001, wasSent: false)),
            (HTTPClientError.socksHandshakeTimeout, ConnectionFault(-1001, wasSent: false)),
            (HTTPClientError.httpProxyHandshakeTimeout, ConnectionFault(-1001, wasSent: false)),
            (ChannelError.connectTimeout(.seconds(1)), ConnectionFault(-1001, wasSent: false)),
            (HTTPClientError.getConnectionFromPoolTimeout, ConnectionFault(-1001, systemError: EAGAIN, wasSent: false)),
            (NIOSSLError.handshakeFailed(.syscallError), ConnectionFault(-1200, wasSent: false)),
            (HTTPClientError.invalidProxyResponse, ConnectionFault(-1011, wasSent: false)),
            (POSIXError(.EMFILE), ConnectionFault(-1, systemError: EMFILE, wasSent: false)),
        ]
        for (error, fault) in unsent {
            #expect(ConnectionFault(error) == fault, "\(error)")
            #expect(decision("POST", on: error) == .retry, "\(error)")
        }
        for error in [HTTPClientError.readTimeout, .writeTimeout] {
            #expect(ConnectionFault(error) == ConnectionFault(-1001, wasSent: true), "\(error)")
            #expect(decision("POST", on: error) == .undecided && decision("GET", on: error) == .retry, "\(error)")
        }
    }

    /// Uses NIO's texts.
    @Test func systemErrorOfConnectingWasNotSent() {
        for words in [
            "socket(domain:type:protocolSubtype:)", "connect(descriptor:addr:size:)", "finishing a non-blocking connect failed",
        ] {
            #expect(decision("POST", on: IOError(errnoCode: EHOSTUNREACH, reason: words)) == .retry, "\(words)")
        }
        for words in ["read(descriptor:pointer:size:)", "writev(descriptor:iovecs:)", "so_error"] {
            #expect(decision("POST", on: IOError(errnoCode: EHOSTUNREACH, reason: words)) == .undecided, "\(words)")
        }
    }

    @Test func systemErrorIsKept() {
        #expect(
            ConnectionFault(IOError(errnoCode: ENETUNREACH, reason: "write")) == ConnectionFault(-1009, systemError: ENETUNREACH))
        #expect(ConnectionFault(IOError(errnoCode: ECONNRESET, reason: "read")) == ConnectionFault(-1005, systemError: ECONNRESET))
    }

    @Test func permanentErrorsAreNotRetried() {
        let errors: [any Error] = [
            HTTPClientError.invalidURL, HTTPClientError.emptyHost, HTTPClientError.unsupportedScheme("ftp"),
            HTTPClientError.alreadyShutdown, HTTPClientError.cancelled, HTTPClientError.bodyLengthMismatch,
            HTTPClientError.redirectLimitReached, HTTPClientError.redirectCycleDetected,
            HTTPClientError.proxyAuthenticationRequired,
            HTTPClientError.traceRequestWithBody, HTTPParserError.invalidStatus, NIOTooManyBytesError(maxBytes: 1),
            NIOSSLError.unableToValidateCertificate, NIOSSLExtraError.failedToValidateHostname,
            CocoaError(.fileReadNoSuchFile), NSError(domain: NSCocoaErrorDomain, code: 260),
        ]
        for error in errors { #expect(decision("GET", on: error) == .undecided, "\(error): \(ConnectionFault(error))") }
    }
}
#endif
