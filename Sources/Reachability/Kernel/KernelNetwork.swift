internal import Synchronization

/// The kernel's network: rtnetlink(7) events, dumps and look-ups.
///
/// It needs no privilege. Events, dumps and look-ups have sockets of their own, opened when they are first needed, so that
/// answers and announcements are never confused. While it runs it has one thread, which reads events and calls the monitor; the
/// thread sleeps in epoll_wait(2) as long as nothing happens. Tasks may prefer it, too: ``executor``. Datagrams from anyone but the
/// kernel are dropped and counted.
///
/// A filter in the kernel keeps away route messages that cannot concern what the monitor watches, so that even a full routing
/// table in motion wakes nobody. What passes it in a flood, 64 datagrams a millisecond and more, gathers for 250 µs before it is
/// read. Losses are noticed by the kernel's drop counter, and everything is asked anew; a socket that
/// has gone deaf is replaced.
///
/// Where a sandbox refuses announcements, or netlink altogether, it goes on without: the monitor then asks at intervals
/// (``MonitorHealth/Mode/polling``), and without netlink by sockets that are connected and never send (connect(2),
/// getsockname(2)). Those know less: gateways, tables, metrics and kinds of interfaces are missing, and a ``Scope`` with a mark or
/// a user may be refused.
public final class KernelNetwork: NetworkSource {
    /// The receive buffer that is asked for: room for some ten thousand messages.
    ///
    /// Without privilege the kernel grants what net.core.rmem_max allows.
    package static let receiveBuffer: UInt32 = 4 << 20

    private let equipment: EventReader.Equipment
    private let usesFilter: Bool
    private let dumps = Mutex<KernelRequests?>(nil)
    private let lookups = Mutex<KernelRequests?>(nil)
    private let isRunning = Atomic(false)
    private let datagrams: DatagramQueries

    /// Makes a source; no socket is opened yet.
    ///
    /// - Parameters:
    ///   - networkNamespace: the path of a network namespace to look into, such as `/run/netns/NAME` (ip-netns(8)) or
    ///     `/proc/PID/ns/net`; it needs CAP_SYS_ADMIN. By default the namespace of the thread that first uses it.
    ///   - usesFilter: whether the kernel is to keep away route messages that cannot matter; `false` is for diagnosis.
    public convenience init(networkNamespace: String? = nil, usesFilter: Bool = true) {
        self.init(networkNamespace: networkNamespace, usesFilter: usesFilter, receiveBuffer: Self.receiveBuffer)
    }

    /// Makes a source with a receive buffer of another size, in bytes, or other clocks.
    package init(networkNamespace: String? = nil, usesFilter: Bool = true, receiveBuffer: UInt32, clock: KernelClock = .init()) {
        equipment = EventReader.Equipment(namespace: networkNamespace, receiveBuffer: receiveBuffer, clock: clock)
        self.usesFilter = usesFilter
        datagrams = DatagramQueries(namespace: networkNamespace)
    }

    /// The reader's thread, for tasks that must hear of a change as early as anybody can.
    ///
    /// ```swift
    /// Task(executorPreference: network.executor) {
    ///     for await state in monitor.condition(for: .internet).updates { … }
    /// }
    /// ```
    ///
    /// Such a task is resumed by the thread that has just reached the verdict: no other thread has to wake up. The price is that a
    /// job which computes for long, or blocks, holds up the reader and with it everybody who listens.
    ///
    /// Jobs run in the order in which they were enqueued, one at a time: once conditions have been told of a change, which is
    /// earliest, and again when all listeners have; jobs that these enqueue wait until the network has been looked after. While
    /// ``run(deliver:)`` is not running, before it as well as after its end, jobs run on the default pool, and so does what was
    /// still waiting when it ended: a task may always prefer this executor and goes on in any case. Tasks with an actor's isolation
    /// run where the actor says (SE-0417). Safe to use from any thread.
    public var executor: any TaskExecutor { equipment.executor }

    /// Reads events on a thread of its own and delivers them until the task is cancelled; once at a time.
    ///
    /// - Throws: ``ReachabilityError`` if the event socket cannot be opened or fails, `CancellationError` when cancelled.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        guard !isRunning.exchange(true, ordering: .acquiringAndReleasing) else {
            throw ReachabilityError(.alreadyRun, operation: "KernelNetwork.run(deliver:)")
        }
        defer { isRunning.store(false, ordering: .releasing) }
        equipment.wakeUp.start()
        try await withTaskCancellationHandler {
            try await ReaderThread.run { [equipment] () throws(ReachabilityError) in
                try Self.read(equipment, deliver)
            }
        } onCancel: {
            equipment.wakeUp.stop()
        }
        try Task.checkCancellation()
    }

    private static func read(
        _ equipment: EventReader.Equipment, _ deliver: (NetworkEventBatch) -> Duration?
    ) throws(ReachabilityError) {
        do throws(ReachabilityError) {
            var reader = try EventReader(equipment)
            try reader.run(deliver)
        } catch {
            guard error.code == .eventsUnavailable || error.code == .netlinkUnavailable else { throw error }
            // With datagram sockets refused as well there is nobody left to ask.
            if error.code == .netlinkUnavailable && !DatagramQueries(namespace: equipment.namespace).areAnswered { throw error }
            var reader = try PollingReader(equipment)
            try reader.run(deliver)
        }
    }

    /// Wakes the reader, which delivers an empty batch (eventfd(2)).
    public func wake() { equipment.wakeUp.signal() }

    /// Has the kernel keep away the route messages that concern none of these addresses (SO_ATTACH_FILTER, socket(7)).
    ///
    /// Before the first call all are delivered. The filter is replaced in one step, for a socket that is in use as well.
    public func watch(_ destinations: Set<IPAddress>) {
        if usesFilter { equipment.filter.watch(destinations) }
    }

    /// All links with their addresses (RTM_GETLINK, RTM_GETADDR), dumped again if the kernel says that they changed meanwhile.
    ///
    /// That is done five times at most, after pauses of 10 ms to 160 ms.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel refuses, or does not answer within two seconds.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try equipment.dumpFailures.counting { () throws(ReachabilityError) in
            try asking { () throws(ReachabilityError) in
                try request(on: dumps) { requests throws(ReachabilityError) in try requests.interfaces() }
            } orElse: { () throws(ReachabilityError) in
                try datagrams.interfaces()
            }
        }
    }

    /// One look-up (RTM_GETROUTE), answered as for a socket of this process.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel does not answer within two seconds.
    public func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        try routes(to: [query])[0]
    }

    /// Look-ups that are sent together and answered together: two calls of the kernel for up to eight of them.
    ///
    /// - Throws: ``ReachabilityError`` if the kernel does not answer within two seconds.
    public func routes(to queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict] {
        try asking { () throws(ReachabilityError) in
            try request(on: lookups) { requests throws(ReachabilityError) in try requests.routes(queries) }
        } orElse: { () throws(ReachabilityError) in
            try datagrams.routes(to: queries)
        }
    }

    /// Runs the jobs of ``executor``: those that a condition has resumed need not wait until streams have been told.
    public func didTellConditions() { _ = equipment.executor.runJobs() }

    /// Has a host looked up by the system (getaddrinfo(3)), on a thread of its own and in the source's network namespace.
    ///
    /// The name servers are those of this process's /etc/resolv.conf, also for another namespace.
    public func resolve(_ host: String) {
        equipment.resolver.resolve(host) { [wakeUp = equipment.wakeUp] in wakeUp.signal() }
    }

    /// Looks a host up now (getaddrinfo(3)); blocks, for many seconds if no name server answers.
    public func addresses(of host: String) -> HostAnswer { HostResolver.lookUp(host, namespace: equipment.namespace) }

    /// Asks through netlink, or without if that is refused; if both fail, netlink is what the user has to know of.
    private func asking<Answer>(
        _ netlink: () throws(ReachabilityError) -> Answer, orElse datagrams: () throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        let refusal: ReachabilityError
        do throws(ReachabilityError) {
            return try netlink()
        } catch {
            guard error.code == .netlinkUnavailable else { throw error }
            refusal = error
        }
        do throws(ReachabilityError) {
            return try datagrams()
        } catch {
            throw error.code == .resourcesExhausted ? error : refusal
        }
    }

    /// A request and its answer, under the socket's own lock.
    ///
    /// After an error the socket is discarded: an answer that comes late must not be taken for the next one's.
    private func request<Answer: Sendable>(
        on requests: borrowing Mutex<KernelRequests?>, _ body: (borrowing KernelRequests) throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        try requests.withLock { requests throws(ReachabilityError) -> Answer in
            let current: KernelRequests
            if let existing = requests.take() {
                current = existing
            } else {
                current = try KernelRequests(namespace: equipment.namespace)
            }
            let answer = try body(current)
            requests = consume current
            return answer
        }
    }
}
