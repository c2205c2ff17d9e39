#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import FoundationNetworking
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL

extension ConnectionFault {
    /// Translates an error of `HTTPClient` or of the libraries below it.
    ///
    /// Other types come from further below, such as from a stream of HTTP/2: they have `URLError`'s code for unknown errors, since
    /// another attempt may succeed.
    package init(_ error: any Error) {
        switch error {
        case let error as HTTPClientError: self.init(error)
        case let error as IOError: self.init(systemError: error.errnoCode, isConnecting: error.isOfConnecting)
        case let error as NIOConnectionError: self.init(error)
        case let error as ChannelError: self.init(error)
        case let error as HTTPParserError: self.init(error == .invalidEOFState ? Self.lost : Self.unreadable)
        case let error as NIOSSLError: self.init(error)
        case is NIOSSLExtraError: self.init(Self.untrusted)
        case is SocketAddressError.UnknownHost: self.init(URLError.Code.cannotFindHost.rawValue)
        case let error as URLError: self.init(error.errorCode)
        case let error as POSIXError: self.init(unsent: error)
        // No errors of a connection: a body that is too long, and files.
        case is NIOTooManyBytesError: self.init(nil)
        case _ where (error as NSError).domain == NSCocoaErrorDomain: self.init(nil)
        default: self.init(URLError.Code.unknown.rawValue)
        }
    }

    private init(_ error: HTTPClientError) {
        switch error {
        case .connectTimeout, .tlsHandshakeTimeout, .socksHandshakeTimeout, .httpProxyHandshakeTimeout:
            self.init(URLError.Code.timedOut.rawValue, wasSent: false)
        case .deadlineExceeded: self.init(URLError.Code.timedOut.rawValue)
        case .readTimeout, .writeTimeout: self.init(URLError.Code.timedOut.rawValue, wasSent: true)
        // EAGAIN: this machine has no connection left.
        case .getConnectionFromPoolTimeout: self.init(URLError.Code.timedOut.rawValue, systemError: 11, wasSent: false)
        case .remoteConnectionClosed, .uncleanShutdown: self.init(Self.lost)
        case .invalidProxyResponse: self.init(URLError.Code.badServerResponse.rawValue, wasSent: false)
        // Errors that the caller has to fix.
        default: self.init(nil)
        }
    }

    /// Translates the errors of all addresses of a host.
    private init(_ error: NIOConnectionError) {
        let faults = error.connectionErrors.map { ConnectionFault($0.error) }
        self = ConnectionFault(anyOf: faults) ?? ConnectionFault(URLError.Code.cannotFindHost.rawValue, wasSent: false)
    }

    private init(_ error: ChannelError) {
        switch error {
        case .connectTimeout: self.init(URLError.Code.timedOut.rawValue, wasSent: false)
        case .eof, .ioOnClosedChannel, .alreadyClosed, .inputClosed, .outputClosed: self.init(Self.lost)
        default: self.init(URLError.Code.unknown.rawValue)
        }
    }

    private init(_ error: NIOSSLError) {
        switch error {
        case .uncleanShutdown: self.init(Self.lost)
        case .unableToValidateCertificate, .noCertificateToValidate: self.init(Self.untrusted)
        // Only the text has the reason.
        case .handshakeFailed(let reason) where "\(reason)".contains("CERTIFICATE_VERIFY_FAILED"): self.init(Self.untrusted)
        case .handshakeFailed: self.init(URLError.Code.secureConnectionFailed.rawValue, wasSent: false)
        default: self.init(URLError.Code.secureConnectionFailed.rawValue)
        }
    }

    private static let lost = URLError.Code.networkConnectionLost.rawValue
    private static let unreadable = URLError.Code.cannotParseResponse.rawValue
    private static let untrusted = URLError.Code.serverCertificateUntrusted.rawValue
}

extension IOError {
    /// `true` if the error was thrown while a connection was made: for a literal address the client throws that of connect(2).
    ///
    /// Only the text names the call: the functions of NIOPosix, and its `Socket.finishConnect` for SO_ERROR.
    fileprivate var isOfConnecting: Bool {
        let text = description
        return ["socket(", "connect(", "finishing a non-blocking connect"].contains { text.hasPrefix($0) }
    }
}
#endif
