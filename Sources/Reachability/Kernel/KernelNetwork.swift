internal import Synchronization

/// The kernel's network: rtnetlink(7) events, dumps and look-ups.
///
/// It needs no privilege. Events, dumps and look-ups have sockets of their own, opened when they are first needed, so that answers and
/// announcements are never confused. While it runs it has one thread, which reads events and calls the monitor; the thread sleeps in
/// ppoll(2) as long as nothing happens. Datagrams from anyone but the kernel are dropped and counted.
public final class KernelNetwork: NetworkSource {
    /// The receive buffer that is asked for: room for some ten thousand messages. Without privilege the kernel grants what
    /// net.core.rmem_max allows.
    static let receiveBuffer: UInt32 = 4 << 20

    private let namespace: String?
    private let dumps = Mutex<KernelRequests?>(nil)
    private let lookups = Mutex<KernelRequests?>(nil)
    private let wakeUp = WakeUp()
    private let isRunning = Atomic(false)

    /// Makes a source; no socket is opened yet.
    ///
    /// - Parameter networkNamespace: the path of a network namespace to look into, such as `/run/netns/NAME` (ip-netns(8)) or
    ///   `/proc/PID/ns/net`; it needs CAP_SYS_ADMIN. By default the namespace of the thread that first uses it.
    public init(networkNamespace: String? = nil) {
        namespace = networkNamespace
    }

    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard !isRunning.exchange(true, ordering: .acquiringAndReleasing) else {
            throw ReachabilityError(.alreadyRun, operation: "KernelNetwork.run(deliver:)")
        }
        defer { isRunning.store(false, ordering: .releasing) }
        try await withTaskCancellationHandler {
            try await ReaderThread.run { [namespace, wakeUp] () throws(ReachabilityError) in
                var reader = try EventReader(namespace: namespace, wakeUp)
                try reader.run(deliver)
            }
        } onCancel: {
            wakeUp.stop()
        }
        try Task.checkCancellation()
    }

    public func wake() { wakeUp.signal() }

    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try request(on: dumps) { requests throws(ReachabilityError) in try requests.interfaces() }
    }

    public func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        try request(on: lookups) { requests throws(ReachabilityError) in try requests.route(query) }
    }

    /// A request and its answer, under the socket's own lock. After an error the socket is discarded: an answer that comes late must not
    /// be taken for the next one's.
    private func request<Answer: Sendable>(
        on requests: borrowing Mutex<KernelRequests?>, _ body: (borrowing KernelRequests) throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        try requests.withLock { requests throws(ReachabilityError) -> Answer in
            let current: KernelRequests
            if let existing = requests.take() { current = existing } else { current = try KernelRequests(namespace: namespace) }
            let answer = try body(current)
            requests = consume current
            return answer
        }
    }
}
