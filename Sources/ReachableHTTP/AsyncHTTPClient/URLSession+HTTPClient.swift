#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import FoundationNetworking
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
internal import ReachableRetry
internal import Synchronization

/// Requests of a session over TLS that must not be sent twice: libcurl may repeat them, and `HTTPClient` repeats none.
extension URLSession {
    /// The end of a request by the client.
    enum ClientEnd<Result> {
        case result(Result)
        /// A redirect, which the session follows: its request may be sent twice.
        case redirect(URLRequest)
    }

    /// Returns true if `HTTPClient` makes a request as the session would.
    ///
    /// It reads no proxies from the environment, cannot ask a delegate or a protocol class, and does not know the credentials
    /// that are stored for a server.
    func isMadeByClient(_ request: URLRequest) -> Bool {
        // The second list has those that the process has registered.
        let classes = [configuration, .ephemeral].flatMap { $0.protocolClasses ?? [] }
        guard delegate == nil, configuration.connectionProxyDictionary?.isEmpty != false, !NameCache.hasProxy,
            configuration.urlCredentialStorage?.allCredentials.isEmpty != false,
            classes.allSatisfy({ String(reflecting: $0).hasPrefix("FoundationNetworking.") })
        else { return false }
        let coding = request.header("Transfer-Encoding")?.trimmingCharacters(in: .whitespaces)
        return coding?.isEmpty != false && (request.httpBodyStream == nil || request.hasUpload)
    }

    /// Makes a request by `HTTPClient`, until the receiver has a result.
    ///
    /// - Throws: The receiver's error; `URLError` with the client's ``ConnectionFault``; `CancellationError`.
    func makeByClient<Receiver: TaskReceiver>(
        _ original: URLRequest, _ attempt: Attempt, _ receiver: inout Receiver
    ) async throws -> ClientEnd<Receiver.Result> {
        guard let url = original.url else { throw URLError(.badURL) }
        let configuration = configuration
        var request = original.header("Cookie") == nil ? original.withCookies(of: configuration) : original
        request.addHeaders(configuration.ownHeaders)
        let client = SessionClients.client(silence: request.timeoutInterval)
        let isBegun = Flag()
        let upload = (request.httpBodyStream as? UploadStream)?.forClient
        var made = HTTPClientRequest(url: url.absoluteString)
        made.method = HTTPMethod(rawValue: request.methodName)
        made.headers = request.headersForClient
        if let upload { made.body = try await upload.body(for: client, isBegun) }
        let response: HTTPClientResponse
        do {
            response = try await client.exchange(made, attempt) { try await client.execute($0, deadline: .distantFuture) }
        } catch {
            let error = URLError.made(of: error, url)
            throw upload?.isEmpty == false && !isBegun.isSet ? Unsent(error: error) : error
        }
        if let storage = configuration.httpCookieStorage, request.httpShouldHandleCookies {
            let cookies = response.headers["Set-Cookie"].flatMap {
                HTTPCookie.cookies(withResponseHeaderFields: ["Set-Cookie": $0], for: url)
            }
            storage.setCookies(cookies, for: url, mainDocumentURL: request.mainDocumentURL)
        }
        let head = HTTPURLResponse(
            url: url, statusCode: Int(response.status.code), httpVersion: "\(response.version)",
            headerFields: Dictionary(response.headers.map { ($0.name, $0.value) }) { "\($0), \($1)" })
        if let head, let target = request.redirected(by: head) {
            if let result = receiver.redirect(head) { return .result(result) }
            return .redirect(target.withCookies(of: configuration))
        }
        if let result = try receiver.receive(head) { return .result(result) }
        var parts = response.body.makeAsyncIterator()
        while true {
            let part: ByteBuffer?
            do { part = try await parts.next() } catch { throw URLError.made(of: error, url) }
            guard let part else { return .result(try receiver.end(head)) }
            if let result = try receiver.receive(Data(part.readableBytesView)) { return .result(result) }
        }
    }
}

/// The clients for requests of sessions, one for each limit of silence, as long as the process lives.
private enum SessionClients {
    private static let clients = Mutex<[Int: HTTPClient]>([:])

    /// Returns the client for a limit.
    ///
    /// - Parameter silence: The limit in seconds; above ten minutes in steps of ten minutes, at most a day, so that there are few
    ///   clients.
    static func client(silence: TimeInterval) -> HTTPClient {
        let step: TimeInterval = silence > 600 ? 600 : 1
        let seconds = Int(min(max(1, (silence / step).rounded(.up) * step), 86_400))
        return clients.withLock { clients in
            if let client = clients[seconds] { return client }
            var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
            // What the system's OpenSSL, and with it libcurl, takes at least.
            var tls = TLSConfiguration.makeClientConfiguration()
            tls.minimumTLSVersion = .tlsv12
            configuration.tlsConfiguration = tls
            let limit = TimeAmount.seconds(Int64(seconds))
            configuration.timeout = .init(connect: limit, read: limit, write: limit)
            let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration.leavingRetriesToBus())
            clients[seconds] = client
            return client
        }
    }
}

extension UploadStream {
    /// The body for a client; `nil` if it cannot be read.
    fileprivate var forClient: ClientUpload? {
        switch content {
        case .data(let data): .bytes(ByteBuffer(bytes: data))
        case .file(let file, let length): .openFile(file, length: length)
        case .unreadable: nil
        }
    }
}

extension URLRequest {
    /// The headers that the session would send, without those of the body, which the client adds.
    fileprivate var headersForClient: HTTPHeaders {
        var headers = HTTPHeaders()
        for (name, value) in allHTTPHeaderFields ?? [:] where !value.allSatisfy(\.isWhitespace) {
            headers.add(name: name, value: value)
        }
        headers.remove(name: "Content-Length")
        if let user = url?.user(percentEncoded: false), !headers.contains(name: "Authorization") {
            headers.add(name: "Authorization", value: Self.basicAuthorization(user, url?.password(percentEncoded: false)))
        }
        if !headers.contains(name: "Accept") { headers.add(name: "Accept", value: "*/*") }
        if !headers.contains(name: "User-Agent") { headers.add(name: "User-Agent", value: ProcessInfo.processInfo.processName) }
        return headers
    }

    /// The request that a redirect leads to, if its method may be repeated; `nil` if the response is the result (RFC 9110, section
    /// 15.4).
    fileprivate func redirected(by response: HTTPURLResponse) -> URLRequest? {
        guard response.statusCode == 303 || [301, 302].contains(response.statusCode) && methodName == "POST",
            let location = response.value(forHTTPHeaderField: "Location"),
            let target = URL(string: location, relativeTo: url)?.absoluteURL, target.isHTTP
        else { return nil }
        var request = detached()
        request.httpMethod = "GET"
        request.url = target
        request.setValue(nil, forHTTPHeaderField: "Connection")
        return target.origin == url?.origin ? request : request.withoutCredentials
    }
}

extension URLError {
    /// The key of the fault in the client's terms.
    private static let faultKey = "ReachableHTTP.ConnectionFault"

    /// Translates an error of the client: errors of a connection are `URLError`, all others stay.
    fileprivate static func made(of error: any Error, _ url: URL) -> any Error {
        if Task.isCancelled { return CancellationError() }
        let fault = ConnectionFault(error)
        guard let code = fault.errorCode.flatMap({ Code(rawValue: $0) }) else { return error }
        return URLError(
            code,
            userInfo: [NSLocalizedDescriptionKey: "\(error)", NSURLErrorFailingURLErrorKey: url, faultKey: fault])
    }

    /// The fault of an error that a client made; `nil` for one of a session.
    var clientFault: ConnectionFault? { errorUserInfo[Self.faultKey] as? ConnectionFault }
}
#endif
