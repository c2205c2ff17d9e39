internal import Glibc
internal import Synchronization

/// A small HTTP server that does what it is told, wrong things included; one thread for itself and one for each connection.
public final class MisbehavingServer: Sendable {
    /// The server could not be started.
    public struct Failure: Error {
        /// What failed.
        public var operation: String
        /// The system's error, as errno(3) has it.
        public var number: Int32
    }

    private struct State {
        var requests: [Request] = []
        var connections: Set<Int32> = []
        var acceptedCount = 0
        var isStopped = false
        var isListening = true
        /// The tasks that wait for requests or connections.
        var witnesses: [Witness] = []

        /// Takes those whose time has come.
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

    /// The port that it listens at.
    public let port: UInt16
    private let descriptor: Int32
    private let keepsBodies: Bool
    private let answer: @Sendable (Request) -> Reply
    private let progress: @Sendable (Request, Int) -> Void
    private let state = Mutex(State())

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - address: where it listens, an IPv4 address.
    ///   - port: the port; 0 has the system choose one.
    ///   - keepsBodies: whether `answer` gets the bodies of requests, too.
    ///   - prepare: runs first on the thread that opens the socket, to take it somewhere else.
    ///   - progress: is told how much of a request's body has arrived, and may hold up the rest.
    ///   - answer: decides what becomes of a request; called by the connections' threads.
    public init(
        at address: String = "127.0.0.1", port: UInt16 = 0, keepsBodies: Bool = false,
        prepare: @escaping @Sendable () throws -> Void = {},
        progress: @escaping @Sendable (Request, Int) -> Void = { _, _ in },
        answer: @escaping @Sendable (Request) -> Reply
    ) throws {
        self.keepsBodies = keepsBodies
        self.progress = progress
        self.answer = answer
        let opened = Mutex<Result<(Int32, UInt16), any Error>?>(nil)
        // Joined, so that the place is known when this returns.
        Thread.run {
            let result = Result {
                try prepare()
                return try Self.listen(address, port)
            }
            opened.withLock { $0 = result }
        }.join()
        guard let result = opened.withLock({ $0 }) else { throw Failure(operation: "pthread_create", number: 0) }
        (descriptor, self.port) = try result.get()
        Thread.run { [self] in accept() }.detach()
    }

    /// The requests so far, in the order in which their heads arrived.
    public var requests: [Request] { state.withLock { $0.requests } }

    /// How many connections are open.
    public var connectionCount: Int { state.withLock { $0.connections.count } }

    /// How many connections were opened so far.
    public var acceptedCount: Int { state.withLock { $0.acceptedCount } }

    /// Suspends until so many requests have arrived, or more.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func untilRequests(_ count: Int) async throws { try await until { $0.requests.count >= count } }

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

    /// Changes the state, and resumes those who waited for that.
    @discardableResult
    private func change<Value: Sendable>(_ body: @Sendable (inout State) -> Value) -> Value {
        let (value, witnesses) = state.withLock { state in (body(&state), state.takeWitnesses()) }
        for witness in witnesses { witness.continuation.resume() }
        return value
    }

    /// Stops listening, and ends all connections.
    public func stop() {
        // Under the lock, under which their threads give them up: a descriptor that was closed is soon another server's.
        state.withLock { state in
            guard !state.isStopped else { return }
            state.isStopped = true
            if state.isListening { shutdown(descriptor, Int32(SHUT_RDWR)) }
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    private static func listen(_ address: String, _ port: UInt16) throws -> (Int32, UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(operation: "socket", number: errno) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
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
            let isStopped = state.withLock { state in
                state.connections.insert(connection)
                state.acceptedCount += 1
                return state.isStopped
            }
            if isStopped { shutdown(connection, Int32(SHUT_RDWR)) }
            Thread.run { [self] in
                serve(Connection(connection))
            }.detach()
        }
        state.withLock { $0.isListening = false }
        close(descriptor)
    }

    private func serve(_ connection: Connection) {
        // Before the descriptor is closed, and may be somebody else's.
        defer { change { [descriptor = connection.descriptor] in _ = $0.connections.remove(descriptor) } }
        while let head = connection.readHead() {
            let taken = change { state in
                let request = Request(number: state.requests.count + 1, head: head)
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

    /// Does what the answer is; returns whether another request may follow.
    private func act(_ reply: Reply, _ connection: Connection, _ request: Request) -> Bool {
        // RFC 9112, section 9.6.
        let closes = request.headers["connection"]?.lowercased() == "close"
        func head(_ status: Int, _ headers: [String: String], _ length: Int) -> [UInt8] {
            let own = ["Content-Length": "\(length)"].merging(closes ? ["Connection": "close"] : [:]) { given, _ in given }
            let fields = headers.merging(own) { given, _ in given }.map { "\($0): \($1)\r\n" }
            return Array("HTTP/1.1 \(status) -\r\n\(fields.sorted().joined())\r\n".utf8)
        }
        switch reply {
        case .respond(let status, let headers, let body):
            return connection.write(head(status, headers, body.count) + (request.method == "HEAD" ? [] : body)) && !closes
        case .breakOff(let status, let headers, let body, let count):
            connection.write(head(status, headers, body.count) + body.prefix(count))
            connection.flush()
            connection.resetOnClose()
        case .stopShort(let status, let headers, let body, let count):
            connection.write(head(status, headers, body.count) + body.prefix(count))
        case .stallAfter(let status, let headers, let body, let count):
            connection.write(head(status, headers, body.count) + body.prefix(count))
            connection.untilGone()
        case .reset: connection.resetOnClose()
        case .stall: connection.untilGone()
        }
        return false
    }
}
