internal import Synchronization

/// The kernel's network: rtnetlink(7) events, dumps and look-ups.
///
/// It needs no privilege. Events, dumps and look-ups have sockets of their own, opened when they are first needed, so that
/// answers and announcements are never confused. While it runs it has one thread, which reads events and calls the monitor; the
/// thread sleeps in ppoll(2) as long as nothing happens. Datagrams from anyone but the kernel are dropped and counted.
public final class KernelNetwork: NetworkSource {
    /// The receive buffer that is asked for: room for some ten thousand messages.
    ///
    /// Without privilege the kernel grants what net.core.rmem_max allows.
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

    /// Reads events on a thread of its own and delivers them until the task is cancelled; once at a time.
    ///
    /// - Throws: ``ReachabilityError`` if the event socket cannot be opened or fails, `CancellationError` when cancelled.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard !isRunning.exchange(true, ordering: .acquiringAndReleasing) else {
            throw ReachabilityError(.alreadyRun, operation: "KernelNetwork.run(deliver:)")
        }
        defer { isRunning.store(false, ordering: .releasing) }
        wakeUp.start()
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

    /// Wakes the reader, which delivers an empty batch (eventfd(2)).
    public func wake() { wakeUp.signal() }

    /// All links with their addresses (RTM_GETLINK, RTM_GETADDR), made again while the kernel says that they changed meanwhile.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel refuses, or does not answer within two seconds.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try request(on: dumps) { requests throws(ReachabilityError) in try requests.interfaces() }
    }

    /// One look-up (RTM_GETROUTE), answered as for a socket of this process.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel does not answer within two seconds.
    public func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        try request(on: lookups) { requests throws(ReachabilityError) in try requests.route(query) }
    }

    /// A request and its answer, under the socket's own lock.
    ///
    /// After an error the socket is discarded: an answer that comes late must not be taken for the next one's.
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
