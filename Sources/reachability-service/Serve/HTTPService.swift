#if Service
import CommandKit
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import Reachability
import ServiceLifecycle

/// The HTTP server: endpoints, headers, limits.
struct HTTPService: Sendable {
    /// One event loop, because each holds three descriptors, and the work is small.
    ///
    /// It lasts as long as the process: connections that have ended schedule a last task now and then.
    private static let loop = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// The time after which a connection without a complete request is closed, also if headers trickle in.
    static let idleTimeout = TimeAmount.seconds(10)
    /// The longest head of a request: twice what a browser sends with a full set of cookies.
    static let maxHeadSize = 16 * 1024
    /// The largest number of hours of `/history`: 30 days.
    static let maxHours = 720

    let address: ListenAddress
    let session: ServeSession
    let connections: ConnectionLimit

    /// Serves until the task is cancelled, and returns when all connections are closed.
    ///
    /// - Parameter onListening: Receives the port once the server listens; `nil` for a Unix socket.
    /// - Throws: ``CommandFailure`` if it cannot listen there.
    func run(onListening: @escaping @Sendable (Int?) async -> Void) async throws {
        let logger = Logger(label: "http") { _ in SwiftLogNoOpLogHandler() }
        let application = Application(
            router: router,
            server: .http1(
                configuration: .init(
                    additionalChannelHandlers: [connections.handler()], idleTimeout: Self.idleTimeout,
                    httpDecoderConfiguration: .init(
                        maxHeaderFieldSize: Self.maxHeadSize, maxHeaderListSize: Self.maxHeadSize, maxHeaderFieldCount: 100))),
            configuration: ApplicationConfiguration(address: bindAddress),
            onServerRunning: { await onListening($0.localAddress?.port) },
            eventLoopGroupProvider: .shared(Self.loop), logger: logger)
        let services = ServiceGroup(configuration: .init(services: [application], logger: logger))
        // A task of its own: a cancelled server drops connections that it has just accepted, and each of these traps
        // (NIOAsyncWriter.deinit).
        let serving = Task { try await services.run() }
        let result = await withTaskCancellationHandler {
            await serving.result
        } onCancel: {
            Task {
                await services.triggerGracefulShutdown()
                connections.closeAll()
            }
        }
        guard case .failure(let error) = result else { return }
        throw Self.failure(error, address)
    }

    private var bindAddress: BindAddress {
        switch address {
        case .loopback(let host, let port): .hostname(host, port: port)
        case .socket(let path): .unixDomainSocket(path: path)
        }
    }

    private static func failure(_ error: any Error, _ address: ListenAddress) -> CommandFailure {
        guard let error = error as? IOError else {
            return CommandFailure(.unknown, "the HTTP server ended: \(error); next: report this with the version")
        }
        return CommandFailure(
            .cannotCreate,
            "cannot listen on \(quotation(address.url(port: nil))): \(errorText(error.errnoCode)); "
                + "next: name another place with --listen")
    }

    // MARK: - Endpoints

    private var router: Router<ServiceContext> {
        let router = Router(context: ServiceContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: Guarding(rules: RequestGuard(allowsAnyHost: address.isSocket)))
        for file in PageFile.all {
            router.get(RouterPath(file.path)) { _, _ in
                Response(
                    status: .ok, headers: [.contentType: file.type],
                    body: .init(byteBuffer: ByteBuffer(bytes: file.bytes)))
            }
        }
        router.get("metrics") { [session, connections] _, _ in
            let counts = connections.counts
            return Self.answer(
                await session.metrics(connections: counts.open, refused: counts.refused),
                "text/plain; version=0.0.4; charset=utf-8")
        }
        router.get("status") { [session] _, _ in Self.answer(await session.status(), "application/json") }
        router.get("history") { [session] request, _ in
            guard let hours = Self.hours(request.uri.queryParameters["hours"].map(String.init)) else {
                return Self.answer("hours is not a number from 1 to \(Self.maxHours)\n", "text/plain", .badRequest)
            }
            return Self.answer(await session.history(hours: hours), "application/json")
        }
        router.get("events") { [session] request, context in
            await Self.events(request, context.channel, session)
        }
        return router
    }

    /// Returns the number of hours of a query; 24 without one, `nil` for anything but a number in range.
    static func hours(_ text: String?) -> Int? {
        guard let text else { return 24 }
        return Int(text).flatMap { (1...maxHours).contains($0) ? $0 : nil }
    }

    private static func answer(_ text: String, _ type: String, _ status: HTTPResponse.Status = .ok) -> Response {
        Response(
            status: status, headers: [.contentType: type, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: text)))
    }

    private static func events(
        _ request: Request, _ channel: any Channel, _ session: ServeSession
    ) async -> Response {
        let headers: HTTPFields = [.contentType: "text/event-stream", .cacheControl: "no-store"]
        // The answer to HEAD has no body that would end the stream.
        if request.method == .head { return Response(status: .ok, headers: headers) }
        let stream = await session.events(after: request.headers[text: "Last-Event-ID"]) { channel.close(promise: nil) }
        guard let stream else { return Response(status: .serviceUnavailable, headers: [.retryAfter: "10"]) }
        return Response(
            status: .ok, headers: headers,
            body: .init { writer in
                for await event in stream { try await writer.write(ByteBuffer(string: event)) }
                try await writer.finish(nil)
            })
    }
}

/// Refuses requests by the rules of ``RequestGuard``, and adds the headers of every answer.
private struct Guarding: RouterMiddleware {
    typealias Context = ServiceContext

    let rules: RequestGuard

    @concurrent func handle(
        _ request: Request, context: ServiceContext, next: @concurrent (Request, ServiceContext) async throws -> Response
    ) async throws -> Response {
        let headers = request.headers
        // The codec takes the first `Host` away: another one is left only if there were two.
        let host = headers[text: "Host"] != nil ? nil : request.head.authority
        let parts = RequestGuard.Request(
            method: request.method.rawValue, host: host, origin: headers[.origin], site: headers[text: "Sec-Fetch-Site"],
            mode: headers[text: "Sec-Fetch-Mode"], destination: headers[text: "Sec-Fetch-Dest"])
        if let refusal = rules.refusal(of: parts) {
            let allowed: HTTPFields = refusal == .methodNotAllowed ? [.allow: "GET, HEAD"] : [:]
            return Response(status: .init(code: refusal.rawValue), headers: allowed)
        }
        var response: Response
        do {
            response = try await next(request, context)
        } catch let error as HTTPError where error.status == .notFound {
            response = Response(status: .notFound)
        }
        for (name, value) in PageFile.headers {
            if let name = HTTPField.Name(name) { response.headers[name] = value }
        }
        return response
    }
}

/// The context of a request, with its connection.
private struct ServiceContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}

extension HTTPFields {
    /// The value of a field that has no constant.
    fileprivate subscript(text name: String) -> String? { HTTPField.Name(name).flatMap { self[$0] } }
}
#endif
