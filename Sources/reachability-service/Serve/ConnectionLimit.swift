#if Service
import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Synchronization

/// The open connections, and the rule for one too many.
///
/// The longest waiting one without a complete request is closed: it may never send one. If all of them are being answered, the new
/// one is closed. So idle clients and half-sent requests do not keep others out.
final class ConnectionLimit: Sendable {
    private struct Connection {
        var channel: any Channel
        /// The number of requests that are being answered.
        var requests = 0
    }

    private struct State {
        /// By age: numbers grow.
        var connections: [UInt64: Connection] = [:]
        var next: UInt64 = 0
        var refused = 0
        var isClosed = false

        /// Adds a connection; returns its number, and the one to close.
        mutating func add(_ channel: any Channel, limit: Int) -> (number: UInt64, surplus: (any Channel)?) {
            next += 1
            if isClosed { return (next, channel) }
            connections[next] = Connection(channel: channel)
            if connections.count <= limit { return (next, nil) }
            refused += 1
            let idle = connections.filter { $0.value.requests == 0 }.keys.min() ?? next
            return (next, connections.removeValue(forKey: idle)?.channel)
        }
    }

    /// The size of the kernel's buffer of what a client has not read, in bytes.
    private static let sendBuffer = 128 * 1024

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: The number of connections.
    init(_ limit: Int) { self.limit = limit }

    /// The number of open connections, and of those that were closed because there were too many.
    var counts: (open: Int, refused: Int) { state.withLock { ($0.connections.count, $0.refused) } }

    /// Returns the handler of a new connection.
    func handler() -> some RemovableChannelHandler { Handler(self) }

    /// Adds a connection; returns its number.
    private func add(_ channel: any Channel) -> UInt64 {
        let (number, surplus) = state.withLock { $0.add(channel, limit: limit) }
        surplus?.close(promise: nil)
        return number
    }

    /// Closes all connections, also those that are opened from now on.
    func closeAll() {
        let channels = state.withLock { state in
            state.isClosed = true
            return state.connections.values.map(\.channel)
        }
        for channel in channels { channel.close(promise: nil) }
    }

    private func remove(_ number: UInt64) { state.withLock { _ = $0.connections.removeValue(forKey: number) } }

    private func change(_ number: UInt64, by count: Int) {
        state.withLock { $0.connections[number]?.requests += count }
    }

    /// Follows the requests of one connection, and closes it when a request has a body: no endpoint reads one.
    private final class Handler: ChannelDuplexHandler, RemovableChannelHandler {
        typealias InboundIn = HTTPRequestPart
        typealias InboundOut = HTTPRequestPart
        typealias OutboundIn = HTTPResponsePart
        typealias OutboundOut = HTTPResponsePart

        private let limit: ConnectionLimit
        private var number: UInt64 = 0

        init(_ limit: ConnectionLimit) { self.limit = limit }

        func channelActive(context: ChannelHandlerContext) {
            // By itself the kernel would keep megabytes for each reader that does not read (tcp_wmem, tcp(7)).
            let size = ChannelOptions.socketOption(.so_sndbuf)
            try? context.channel.syncOptions?.setOption(size, value: SocketOptionValue(ConnectionLimit.sendBuffer))
            number = limit.add(context.channel)
            context.fireChannelActive()
        }

        func channelInactive(context: ChannelHandlerContext) {
            limit.remove(number)
            context.fireChannelInactive()
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head: limit.change(number, by: 1)
            case .body: return context.close(promise: nil)
            case .end: break
            }
            context.fireChannelRead(data)
        }

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            if case .end = unwrapOutboundIn(data) { limit.change(number, by: -1) }
            context.write(data, promise: promise)
        }
    }
}
#endif
