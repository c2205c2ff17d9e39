internal import Glibc
internal import Synchronization

/// A small HTTP server that follows a script, errors included; it has one thread, and one for each connection.
public final class MisbehavingServer: Sendable {
    /// The server could not be started.
    public struct Failure: Error {
        /// The call that failed.
        public var operation: String
        /// The `errno`.
        public var number: Int32
    }

    private struct State {
        var requests: [Request] = []
        var connections: Set<Int32> = []
        var acceptedCount = 0
        var isGreeted = false
        var isStopped = false
        var isListening = true
        /// The tasks that wait for requests or connections.
        var witnesses: [Witness] = []

        /// Removes and returns the witnesses whose condition is met.
        mutating func takeWitnesses() -> [Witness] {
            guard !witnesses.isEmpty else { return [] }
            let state = self
            witnesses.removeAll { $0.isMet(state) }
            return state.witnesses.filter { $0.isMet(state) }
        }
    }

    private struct Witness: Sendable {
        let id: UInt64
        let isMet: @Sendable (State) -> Bool
        let continuation: CheckedContinuation<Void, any Error>
    }

    private let lastWitness = Atomic<UInt64>(0)

    /// The port of the server.
    public let port: UInt16
    private let descriptor: Int32
    private let keepsBodies: Bool
    private let keepsConnections: Bool
    private let greeting: Greeting?
    private let answer: @Sendable (Request) -> Reply
    private let progress: @Sendable (Request, Int) -> Void
    private let state = Mutex(State())

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - address: The IPv4 address of the server.
    ///   - port: The port; 0 lets the system choose one.
    ///   - keepsBodies: `true` if `answer` gets the bodies of requests, too.
    ///   - keepsConnections: `true` if it ignores the clients' `Connection: close`, as small servers do.
    ///   - receiveBuffer: The number of bytes that the system takes before the server reads them; `nil` for the system's own.
    ///   - greeting: The end of each connection after its first bytes, as of a TLS server that fails; `nil` serves HTTP.
    ///   - prepare: Runs first on the thread that opens the socket, for example to enter a namespace.
    ///   - progress: Gets the number of bytes of a request's body that have arrived, and may block the rest.
    ///   - answer: Returns the reply to a request; called by the connections' threads.
    public init(
        at address: String = "127.0.0.1", port: UInt16 = 0, keepsBodies: Bool = false, keepsConnections: Bool = false,
        receiveBuffer: Int32? = nil, greeting: Greeting? = nil, prepare: @escaping @Sendable () throws -> Void = {},
        progress: @escaping @Sendable (Request, Int) -> Void = { _, _ in },
        answer: @escaping @Sendable (Request) -> Reply
    ) throws {
        self.keepsBodies = keepsBodies
        self.keepsConnections = keepsConnections
        self.greeting = greeting
        self.progress = progress
        self.answer = answer
        let opened = Mutex<Result<(Int32, UInt16), any Error>?>(nil)
        // Joined: the port is known when this returns.
        Thread.run {
            let result = Result {
                try prepare()
                return try Self.listen(address, port, receiveBuffer)
            }
            opened.withLock { $0 = result }
        }.join()
        guard let result = opened.withLock({ $0 }) else { throw Failure(operation: "pthread_create", number: 0) }
        (descriptor, self.port) = try result.get()
        Thread.run { [self] in accept() }.detach()
    }

    /// The requests so far, in the order in which their heads arrived.
    public var requests: [Request] { state.withLock { $0.requests } }

    /// The number of open connections.
    public var connectionCount: Int { state.withLock { $0.connections.count } }

    /// The number of connections so far.
    public var acceptedCount: Int { state.withLock { $0.acceptedCount } }

    /// Suspends until at least so many requests have arrived.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func untilRequests(_ count: Int) async throws { try await until { $0.requests.count >= count } }

    /// Suspends until a client has connected, and its first bytes are there.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func untilConnected() async throws { try await until(\.isGreeted) }

    /// Suspends until the clients have closed all connections.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func untilNoConnections() async throws { try await until(\.connections.isEmpty) }

    private func until(_ isMet: @escaping @Sendable (State) -> Bool) async throws {
        let id = lastWitness.add(1, ordering: .relaxed).newValue
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                change { $0.witnesses.append(Witness(id: id, isMet: isMet, continuation: continuation)) }
                if Task.isCancelled { cancelWitness(id) }
            }
        } onCancel: {
            cancelWitness(id)
        }
    }

    private func cancelWitness(_ id: UInt64) {
        let witness = state.withLock { state in
            state.witnesses.firstIndex { $0.id == id }.map { state.witnesses.remove(at: $0) }
        }
        witness?.continuation.resume(throwing: CancellationError())
    }

    /// Changes the state, and resumes the tasks that waited for the change.
    @discardableResult
    private func change<Value: Sendable>(_ body: @Sendable (inout State) -> Value) -> Value {
        let (value, witnesses) = state.withLock { state in (body(&state), state.takeWitnesses()) }
        for witness in witnesses { witness.continuation.resume() }
        return value
    }

    /// Stops listening, and ends all connections.
    public func stop() {
        // Under the lock that the connections' threads take before they close: a closed descriptor is soon another server's.
        state.withLock { state in
            guard !state.isStopped else { return }
            state.isStopped = true
            if state.isListening { shutdown(descriptor, Int32(SHUT_RDWR)) }
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    private static func listen(_ address: String, _ port: UInt16, _ receiveBuffer: Int32?) throws -> (Int32, UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(operation: "socket", number: errno) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        if var receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<Int32>.size))
        }
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = port.bigEndian
        inet_pton(AF_INET, address, &name.sin_addr)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isOpen = withUnsafeMutablePointer(to: &name) { name in
            name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                bind(descriptor, name, size) == 0 && Glibc.listen(descriptor, 64) == 0 && getsockname(descriptor, name, &size) == 0
            }
        }
        guard isOpen else {
            defer { close(descriptor) }
            throw Failure(operation: "bind", number: errno)
        }
        return (descriptor, UInt16(bigEndian: name.sin_port))
    }

    private func accept() {
        while true {
            let connection = Glibc.accept(descriptor, nil, nil)
            if connection < 0 && errno == EINTR { continue }
            guard connection >= 0 else { break }
            _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
            let (isStopped, number) = state.withLock { state in
                state.connections.insert(connection)
                state.acceptedCount += 1
                return (state.isStopped, state.acceptedCount)
            }
            if isStopped { shutdown(connection, Int32(SHUT_RDWR)) }
            Thread.run { [self] in
                serve(Connection(connection), number)
            }.detach()
        }
        state.withLock { $0.isListening = false }
        close(descriptor)
    }

    private func serve(_ connection: Connection, _ number: Int) {
        // Before the descriptor is closed and reused.
        defer { change { [descriptor = connection.descriptor] in _ = $0.connections.remove(descriptor) } }
        if let greeting {
            _ = connection.read()
            change { $0.isGreeted = true }
            switch greeting {
            case .close: break
            case .reset: connection.resetOnClose()
            case .silence: connection.untilGone()
            case .alert: connection.write([21, 3, 3, 0, 2, 2, 80])
            }
            return
        }
        while let head = connection.readHead() {
            let taken = change { state in
                let request = Request(number: state.requests.count + 1, connection: number, head: head)
                if let request { state.requests.append(request) }
                return request
            }
            guard var request = taken, readBody(&request, connection) else { return }
            state.withLock { [request] state in
                state.requests[request.number - 1] = request
                state.requests[request.number - 1].body = []
            }
            guard act(answer(request), connection, request) else { return }
        }
    }

    private func readBody(_ request: inout Request, _ connection: Connection) -> Bool {
        guard let length = request.headers["content-length"].flatMap({ Int($0) }), length > 0 else { return true }
        if request.headers["expect"] != nil { connection.write("HTTP/1.1 100 Continue\r\n\r\n".utf8) }
        while request.length < length {
            guard let bytes = connection.read(), !bytes.isEmpty else { return false }
            request.length += bytes.count
            for byte in bytes { request.sum &+= UInt64(byte) }
            if keepsBodies { request.body += bytes }
            progress(request, request.length)
        }
        return true
    }

    /// Sends a reply; returns `true` if another request may follow.
    private func act(_ reply: Reply, _ connection: Connection, _ request: Request) -> Bool {
        // RFC 9112, section 9.6.
        let closes = !keepsConnections && request.headers["connection"]?.lowercased() == "close"
        func head(_ status: Int, _ headers: [String: String], _ length: Int?) -> [UInt8] {
            var own = length.map { ["Content-Length": "\($0)"] } ?? [:]
            if closes || length == nil { own["Connection"] = "close" }
            let lines = headers.merging(own) { given, _ in given }.map { "\($0): \($1)\r\n" }
            return Array("HTTP/1.1 \(status) -\r\n\(lines.sorted().joined())\r\n".utf8)
        }
        switch reply {
        case .respond(let status, let headers, let body):
            return connection.write(head(status, headers, body.count) + (request.method == "HEAD" ? [] : body)) && !closes
        case .respondUntilClose(let status, let headers, let body):
            _ = connection.write(head(status, headers, nil) + body)
            return false
        case .paced(let status, let headers, let body, let gate):
            var isComplete = connection.write(head(status, headers, body.count))
            for start in stride(from: 0, to: body.count, by: 65_536) where isComplete {
                gate(start)
                isComplete = connection.write(body[start..<min(start + 65_536, body.count)])
            }
            return isComplete && !closes
        case .breakOff(let status, let headers, let body, let count):
            connection.write(head(status, headers, body.count) + body.prefix(count))
            connection.flush()
            connection.resetOnClose()
        case .stopShort(let status, let headers, let body, let count):
            connection.write(head(status, headers, body.count) + body.prefix(count))
        case .stallAfter(let status, let headers, let body, let count):
            connection.write(head(status, headers, body.count) + body.prefix(count))
            connection.untilGone()
        case .late(let milliseconds, let reply):
            poll(nil, 0, milliseconds)
            return act(reply, connection, request)
        case .raw(let bytes): connection.write(bytes)
        case .reset: connection.resetOnClose()
        case .stall: connection.untilGone()
        }
        return false
    }
}

/// A TCP connection with blocking calls; closed with the object.
private final class Connection {
    let descriptor: Int32
    private var pending: [UInt8] = []

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Reads the next request's head, without its empty line; `nil` if the client is gone.
    func readHead() -> String? {
        let end: [UInt8] = [13, 10, 13, 10]
        var searched = 0
        while true {
            if let start = (searched..<max(searched, pending.count - 3)).first(where: { pending[$0..<$0 + 4].elementsEqual(end) }) {
                defer { pending.removeSubrange(..<(start + end.count)) }
                return String(decoding: pending[..<start], as: UTF8.self)
            }
            searched = max(0, pending.count - 3)
            guard let bytes = receive(), !bytes.isEmpty else { return nil }
            pending += bytes
        }
    }

    /// Reads some bytes: none at the end, `nil` after an error.
    func read() -> [UInt8]? {
        guard pending.isEmpty else {
            defer { pending = [] }
            return pending
        }
        return receive()
    }

    private func receive() -> [UInt8]? {
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { buffer in
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            return count < 0 ? nil : Array(buffer[..<count])
        }
    }

    @discardableResult
    func write(_ bytes: some Sequence<UInt8>) -> Bool {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Waits until the client has acknowledged all bytes or is gone.
    func flush() {
        var left: Int32 = 1
        // SIOCOUTQ of linux/sockios.h: the number of unacknowledged bytes.
        while ioctl(descriptor, 0x5411, &left) == 0, left > 0 { sched_yield() }
    }

    /// Resets the connection when it is closed.
    func resetOnClose() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
    }

    /// Waits until the client is gone.
    func untilGone() { while let bytes = read(), !bytes.isEmpty {} }
}

/// A thread for blocking calls.
private struct Thread {
    private let thread: pthread_t

    private final class Body {
        let run: () -> Void
        init(_ run: @escaping () -> Void) { self.run = run }
    }

    static func run(_ body: @escaping @Sendable () -> Void) -> Thread {
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(Body(body)).toOpaque())
        return Thread(thread: thread)
    }

    func join() { pthread_join(thread, nil) }

    func detach() { pthread_detach(thread) }
}
