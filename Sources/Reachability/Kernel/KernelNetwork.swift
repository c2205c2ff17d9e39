internal import Glibc
internal import Synchronization

/// The kernel's network: rtnetlink(7) events, dumps and lookups.
///
/// It needs no privilege. Events, dumps and lookups have separate sockets, opened on first use, so that answers and events never
/// mix. While it runs, one thread reads events and calls the monitor; it sleeps in epoll_wait(2) while nothing happens. Tasks can
/// run on that thread: see ``executor``. Spoofed datagrams, from any sender but the kernel, are dropped and counted.
///
/// A filter in the kernel drops route messages that cannot concern the watched scopes: even a full routing table in motion causes
/// no wake-up. Under a flood of 64 datagrams a millisecond or more, it reads every 250 µs. The kernel's drop counter reveals lost
/// events, which start a resync; a socket that receives nothing any more is replaced.
///
/// Where a sandbox forbids events, or netlink altogether, the monitor polls (``MonitorHealth/Mode/polling``). Without netlink it
/// connects UDP sockets, which sends nothing (connect(2), getsockname(2)). Gateways, tables, metrics and kinds of interfaces are
/// then unknown, and a ``Scope`` with a mark or a user may be refused.
///
/// A shortage of descriptors, threads or memory counts as temporary: it polls, reports the error
/// (``NetworkEventBatch/impairment``), and retries every 5 s.
public final class KernelNetwork: NetworkSource, FilteringSource, HostAnswering, TaskRunningSource,
    UnderlaySource
{
    /// The requested size of the receive buffer, in bytes: room for about 10 000 messages.
    ///
    /// Without privilege the kernel grants at most net.core.rmem_max.
    package static let receiveBuffer: UInt32 = 4 << 20

    /// The pause before another attempt to read events after a shortage.
    private static let shortagePause: Duration = .seconds(5)

    /// The sockets of one kind of caller.
    private struct Requests: ~Copyable {
        let dumps = Mutex<KernelRequests?>(nil)
        let lookups = Mutex<KernelRequests?>(nil)
    }

    private enum Phase: UInt8, AtomicRepresentable {
        case idle
        /// ``run(deliver:)`` runs; no events are read.
        case running
        /// Events are read.
        case live
    }

    private let context: ReaderContext
    private let usesFilter: Bool
    /// The reader's sockets, and those of all other threads: the reader waits only for its own requests.
    private let readerRequests = Requests()
    private let otherRequests = Requests()
    private let phase = Atomic(Phase.idle)
    /// The thread that reads events (pthread_self(3)), or 0.
    private let reader = Atomic<UInt>(0)
    /// `true` if events may have been missed since ``run(deliver:)`` began.
    private let mayHaveMissed = Atomic(false)
    private let probe: UDPRouteProbe

    /// Creates a source.
    ///
    /// Opens no socket yet.
    ///
    /// - Parameters:
    ///   - networkNamespace: the path of the network namespace, such as `/run/netns/NAME` (ip-netns(8)) or `/proc/PID/ns/net`; it
    ///     needs CAP_SYS_ADMIN. By default the namespace of the thread that first uses the source.
    ///   - usesFilter: `true` if the kernel drops route messages that cannot matter; `false` is for diagnosis.
    public convenience init(networkNamespace: String? = nil, usesFilter: Bool = true) {
        self.init(networkNamespace: networkNamespace, usesFilter: usesFilter, receiveBuffer: Self.receiveBuffer)
    }

    /// Creates a source that takes over an event socket with the events in its queue.
    ///
    /// For a service that is restarted without missing an event. Its service manager holds the socket, in which the kernel queues
    /// events while no process of the service runs: a unit with `ListenNetlink=route` (systemd.socket(5)), or a descriptor store
    /// (sd_pid_notify_with_fds(3)). The first batch has all queued events, and the first dump follows them. When ``run(deliver:)``
    /// ends, every event that was read has been delivered, and later ones stay in the queue.
    ///
    /// The size of the receive buffer stays as it is; groups and the filter become those of the source. A socket that goes deaf is
    /// replaced as any other.
    ///
    /// - Parameters:
    ///   - eventSocket: a descriptor of an rtnetlink(7) socket with a port (bind(2)), owned by the source from then on.
    ///   - networkNamespace: the path of the socket's network namespace; by default that of the calling thread.
    /// - Throws: ``ReachabilityError`` with the code ``ReachabilityError/Code/invalidSocket`` for any other descriptor, which then
    ///   remains the caller's.
    public convenience init(takingOver eventSocket: Int32, networkNamespace: String? = nil) throws(ReachabilityError) {
        let inherited = try InheritedSocket(eventSocket, namespace: networkNamespace)
        self.init(
            ReaderContext(
                namespace: networkNamespace, receiveBuffer: Self.receiveBuffer, clock: KernelClock(), inherited: inherited),
            usesFilter: true)
    }

    /// Creates a source with another size of the receive buffer, in bytes, other clocks, or another root of the watched files.
    package convenience init(
        networkNamespace: String? = nil, usesFilter: Bool = true, receiveBuffer: UInt32, clock: KernelClock = .init(),
        resolverRoot: String = ""
    ) {
        self.init(
            ReaderContext(
                namespace: networkNamespace, receiveBuffer: receiveBuffer, clock: clock, resolverRoot: resolverRoot),
            usesFilter: usesFilter)
    }

    private init(_ context: ReaderContext, usesFilter: Bool) {
        (self.context, self.usesFilter) = (context, usesFilter)
        probe = UDPRouteProbe(namespace: context.namespace)
    }

    /// The executor on the reader's thread, for tasks that need the lowest latency.
    ///
    /// ```swift
    /// Task(executorPreference: network.executor) {
    ///     for await state in monitor.condition(for: .internet).updates { … }
    /// }
    /// ```
    ///
    /// The thread that reaches a verdict resumes such a task itself: no other thread has to wake up. A job that computes for long,
    /// or blocks, delays the reader and every listener.
    ///
    /// Jobs run one at a time in the order in which they were enqueued: after conditions have changed, which is earliest, and again
    /// after all listeners were notified. The reader looks at the network before it runs the jobs that these enqueue. While
    /// ``run(deliver:)`` does not run, jobs run on the default pool; this includes jobs that are left when it ends. So a task may
    /// always prefer this executor. Tasks with an actor's isolation run on the actor's executor (SE-0417). Safe to use from any
    /// thread.
    public var executor: any TaskExecutor { context.executor }

    /// Reads events on its own thread and delivers them until the task is cancelled.
    ///
    /// One call at a time.
    ///
    /// - Throws: ``ReachabilityError`` if the event socket cannot be opened or fails, `CancellationError` when cancelled.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard phase.compareExchange(expected: .idle, desired: .running, ordering: .acquiringAndReleasing).exchanged else {
            throw ReachabilityError(.alreadyRun, operation: "KernelNetwork.run(deliver:)")
        }
        defer { phase.store(.idle, ordering: .releasing) }
        context.wakeUp.start()
        mayHaveMissed.store(false, ordering: .relaxed)
        try await withTaskCancellationHandler {
            while true {
                do {
                    try await SystemThread.run { [self] () throws(ReachabilityError) in
                        reader.store(pthread_self(), ordering: .releasing)
                        defer { reader.store(0, ordering: .releasing) }
                        try read(deliver)
                    }
                    return
                } catch let error as ReachabilityError where error.code == .resourcesExhausted {
                    // There is no thread to read on: the monitor polls until the next attempt.
                    mayHaveMissed.store(true, ordering: .relaxed)
                    let now = BootInstant(sinceBoot: context.clock.bootTime)
                    let batch = NetworkEventBatch(now: now, wallTime: context.clock.wallTime, isPolled: true, impairment: error)
                    let pause = deliver(batch) ?? Self.shortagePause
                    try await Task.sleep(for: min(pause, Self.shortagePause), clock: .continuous)
                }
            }
        } onCancel: {
            context.wakeUp.stop()
        }
        try Task.checkCancellation()
    }

    /// Reads events until it is stopped, and polls while there are none to read.
    private func read(_ deliver: (NetworkEventBatch) -> Duration?) throws(ReachabilityError) {
        while !context.wakeUp.isStopped {
            context.wakeUp.reopen()
            if let cause = try readEvents(deliver) {
                mayHaveMissed.store(true, ordering: .relaxed)
                var reader = PollingReader(context, because: cause)
                try reader.run(deliver, for: cause.code == .resourcesExhausted ? Self.shortagePause : nil)
            }
        }
    }

    /// Reads events until it is stopped.
    ///
    /// - Returns: the reason why there are none, if the monitor can poll instead.
    private func readEvents(
        _ deliver: (NetworkEventBatch) -> Duration?
    ) throws(ReachabilityError) -> ReachabilityError? {
        var reader: EventReader
        do throws(ReachabilityError) {
            reader = try EventReader(context)
        } catch {
            switch error.code {
            case .resourcesExhausted, .eventsUnavailable: return error
            case .netlinkUnavailable:
                // Without UDP sockets, too, there is nothing to poll.
                if let failure = probe.failure, failure.code != .resourcesExhausted { throw error }
                return error
            default: throw error
            }
        }
        phase.store(.live, ordering: .relaxed)
        defer { phase.store(.running, ordering: .relaxed) }
        try reader.run(deliver, mayHaveMissed: mayHaveMissed.exchange(true, ordering: .relaxed))
        return nil
    }

    /// Wakes the reader, which delivers an empty batch (eventfd(2)).
    public func wake() { context.wakeUp.signal() }

    /// Makes the kernel drop route messages that concern none of these addresses (SO_ATTACH_FILTER, socket(7)).
    ///
    /// Before the first call all messages pass. Replaces the filter atomically, also while events are read.
    public func watch(_ destinations: Set<IPAddress>) {
        if usesFilter { context.filter.watch(destinations) }
    }

    /// Returns all links with their addresses (RTM_GETLINK, RTM_GETADDR).
    ///
    /// - Throws: ``ReachabilityError`` if the kernel refuses or does not answer within 2 s;
    ///   ``ReachabilityError/Code/interrupted`` if links or addresses changed during the dump. After five interruptions in a row
    ///   the dump is accepted.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try context.dumpFailures.counting { isLast throws(ReachabilityError) in
            let interfaces = try withFallback { () throws(ReachabilityError) -> [NetworkInterface]? in
                let body = { (requests: borrowing KernelRequests) throws(ReachabilityError) in
                    try requests.interfaces(isLast: isLast)
                }
                return isReader ? try request(on: readerRequests.dumps, body) : try request(on: otherRequests.dumps, body)
            } probe: { () throws(ReachabilityError) in
                try probe.interfaces()
            }
            // Thrown here, not in the request: the socket was read to the end of the dump and stays usable.
            guard let interfaces else {
                throw ReachabilityError(.interrupted, errno: EINTR, operation: "RTM_GETLINK and RTM_GETADDR")
            }
            return interfaces
        }
    }

    /// Looks up routes (RTM_GETROUTE): two system calls for up to eight queries.
    ///
    /// For ``RouteQuery/Source/selected`` it first connects a UDP socket, which sends nothing (connect(2), getsockname(2)).
    /// A query fails if the kernel does not answer within 2 s.
    public func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        guard queries.contains(where: { $0.source == .selected }) else { return lookUp(queries) }
        return queries.map { query in
            guard query.source == .selected else { return lookUp([query])[0] }
            do throws(ReachabilityError) {
                let connected = try probe.route(to: query)
                guard case .route(let route) = connected, let source = route.source else { return .success(connected) }
                let answer = lookUp([query.from(.address(source))])[0]
                // The socket is bound to the interface; a lookup with a source may still leave by another, or be refused.
                if query.interface != nil, try !answer.get().leaves(by: query.interface) {
                    return try isOnlyForDatagrams(query, from: source)
                        ? .success(.refused(errno: ENETUNREACH)) : .success(connected)
                }
                return answer
            } catch {
                return .failure(error)
            }
        }
    }

    /// Returns true if a rule leads datagrams from a source out of the query's interface, and its transport elsewhere.
    private func isOnlyForDatagrams(_ query: RouteQuery, from source: IPAddress) throws(ReachabilityError) -> Bool {
        guard query.transport != .udp else { return false }
        var datagram = query.from(.address(source))
        datagram.transport = .udp
        return try lookUp([datagram])[0].get().leaves(by: query.interface)
    }

    private func lookUp(_ queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        do throws(ReachabilityError) {
            return try withFallback { () throws(ReachabilityError) in
                try request { (requests: borrowing KernelRequests) throws(ReachabilityError) in try requests.routes(queries) }
            } probe: { () throws(ReachabilityError) in
                try probe.routes(to: queries).map(Result.success)
            }
        } catch {
            return queries.map { _ in .failure(error) }
        }
    }

    /// The time for the routes of an interface, of which there may be a million.
    private static let inspectionLimit: Duration = .milliseconds(50)

    package func inspect(_ inspection: Inspection) throws(ReachabilityError) -> UInt32? {
        switch inspection {
        case .ownRoute(let interfaces):
            let clock = context.clock
            let requests = try KernelRequests(namespace: context.namespace)
            let end = clock.monotonicTime.saturatingAdd(Self.inspectionLimit)
            return try requests.holderOfOwnRoute(among: interfaces) { end < clock.monotonicTime }
        case .port(let bridge, let interface, let gateway):
            return try request { (requests: borrowing KernelRequests) throws(ReachabilityError) in
                try requests.port(of: bridge, towards: gateway, on: interface)
            }
        }
    }

    package func links(_ indices: [UInt32]) throws(ReachabilityError) -> [NetworkInterface] {
        try request { (requests: borrowing KernelRequests) throws(ReachabilityError) in try requests.links(indices) }
    }

    package func watch(gateways: Set<IPAddress>) { context.filter.watch(gateways: gateways) }

    /// Sends a request on the calling thread's socket for lookups.
    private func request<Answer: Sendable>(
        _ body: (borrowing KernelRequests) throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        isReader ? try request(on: readerRequests.lookups, body) : try request(on: otherRequests.lookups, body)
    }

    private var isReader: Bool { reader.load(ordering: .relaxed) == pthread_self() }

    /// Runs the jobs of ``executor``: tasks that a condition resumed continue before streams are updated.
    package func runTasks() { _ = context.executor.runJobs() }

    /// Starts a host lookup by the system (getaddrinfo(3)), on its own thread and in the source's network namespace.
    ///
    /// The name servers are those of this process's /etc/resolv.conf, also for another namespace. From the first lookup on, it
    /// watches that file, /etc/hosts and /etc/nsswitch.conf (inotify(7)), and delivers ``NetworkEvent/resolverChanged(file:)``.
    public func resolve(_ host: String) {
        context.resolver.resolve(host) { [wakeUp = context.wakeUp] in wakeUp.signal() }
    }

    /// Looks up hosts now (getaddrinfo(3)), on their own threads.
    ///
    /// Blocks for at most `limit`.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        HostResolver.answers(for: hosts, namespace: context.namespace, within: limit)
    }

    /// Sends a request through netlink, or probes with a UDP socket if netlink is refused.
    ///
    /// If both fail, throws netlink's error.
    ///
    /// After a shortage it probes only while no events are read: a probe knows less, and the difference would be published.
    private func withFallback<Answer>(
        _ netlink: () throws(ReachabilityError) -> Answer, probe: () throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        let refusal: ReachabilityError
        do throws(ReachabilityError) {
            return try netlink()
        } catch {
            let isShort = error.code == .resourcesExhausted && phase.load(ordering: .relaxed) != .live
            guard error.code == .netlinkUnavailable || isShort else { throw error }
            refusal = error
        }
        do throws(ReachabilityError) {
            return try probe()
        } catch {
            throw error.code == .resourcesExhausted ? error : refusal
        }
    }

    /// Sends a request and reads its answer, under the lock of the socket.
    ///
    /// Discards the socket after an error: a late answer must not be taken for the next request's.
    private func request<Answer: Sendable>(
        on requests: borrowing Mutex<KernelRequests?>, _ body: (borrowing KernelRequests) throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        try requests.withLock { requests throws(ReachabilityError) -> Answer in
            let current: KernelRequests
            if let existing = requests.take() {
                current = existing
            } else {
                current = try KernelRequests(namespace: context.namespace)
            }
            let answer = try body(current)
            requests = consume current
            return answer
        }
    }
}
