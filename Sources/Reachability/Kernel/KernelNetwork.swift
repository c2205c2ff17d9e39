internal import Glibc
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
///
/// A shortage of descriptors, threads or memory is treated as passing: it polls meanwhile, says so
/// (``NetworkEventBatch/impairment``), and tries again every five seconds.
public final class KernelNetwork: NetworkSource, FilteringSource, HostAnswering, TaskRunningSource {
    /// The receive buffer that is asked for: room for some ten thousand messages.
    ///
    /// Without privilege the kernel grants what net.core.rmem_max allows.
    package static let receiveBuffer: UInt32 = 4 << 20

    private let equipment: EventReader.Equipment
    private let usesFilter: Bool
    /// The pause before events are subscribed to again after a shortage.
    private static let shortagePause: Duration = .seconds(5)

    /// The sockets of one kind of caller.
    private struct Requests: ~Copyable {
        let dumps = Mutex<KernelRequests?>(nil)
        let lookups = Mutex<KernelRequests?>(nil)
    }

    /// The reader's sockets, and those of all other threads: the reader waits for nobody's request but its own.
    private let reading = Requests()
    private let aside = Requests()
    private let isRunning = Atomic(false)
    /// The thread that reads events (pthread_self(3)), or 0.
    private let reader = Atomic<UInt>(0)
    /// If true, events may have been missed since ``run(deliver:)`` began.
    private let hasPolled = Atomic(false)
    /// If true, events are being read.
    private let isLive = Atomic(false)
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
        hasPolled.store(false, ordering: .relaxed)
        try await withTaskCancellationHandler {
            while true {
                do {
                    try await ReaderThread.run { [self] () throws(ReachabilityError) in
                        reader.store(pthread_self(), ordering: .releasing)
                        defer { reader.store(0, ordering: .releasing) }
                        try read(deliver)
                    }
                    return
                } catch let error as ReachabilityError where error.code == .resourcesExhausted {
                    // There is no thread to read on: the monitor asks what it can, and the thread is started again later.
                    hasPolled.store(true, ordering: .relaxed)
                    let now = BootInstant(sinceBoot: equipment.clock.bootTime)
                    let batch = NetworkEventBatch(now: now, wallTime: equipment.clock.wallTime, isPolled: true, impairment: error)
                    let pause = deliver(batch) ?? Self.shortagePause
                    try await Task.sleep(for: min(pause, Self.shortagePause), clock: .continuous)
                }
            }
        } onCancel: {
            equipment.wakeUp.stop()
        }
        try Task.checkCancellation()
    }

    /// Reads events until it is stopped, and polls as long as there are none to read.
    private func read(_ deliver: (NetworkEventBatch) -> Duration?) throws(ReachabilityError) {
        while !equipment.wakeUp.isStopped {
            equipment.wakeUp.reopen()
            if let cause = try readEvents(deliver) {
                hasPolled.store(true, ordering: .relaxed)
                var reader = PollingReader(equipment, because: cause)
                try reader.run(deliver, for: cause.code == .resourcesExhausted ? Self.shortagePause : nil)
            }
        }
    }

    /// Reads events until it is stopped.
    ///
    /// - Returns: the reason why there are none, if the monitor can do without.
    private func readEvents(
        _ deliver: (NetworkEventBatch) -> Duration?
    ) throws(ReachabilityError) -> ReachabilityError? {
        var reader: EventReader
        do throws(ReachabilityError) {
            reader = try EventReader(equipment)
        } catch {
            switch error.code {
            case .resourcesExhausted, .eventsUnavailable: return error
            case .netlinkUnavailable:
                // With datagram sockets forbidden as well there is nothing left to ask.
                if let failure = datagrams.failure, failure.code != .resourcesExhausted { throw error }
                return error
            default: throw error
            }
        }
        isLive.store(true, ordering: .relaxed)
        defer { isLive.store(false, ordering: .relaxed) }
        try reader.run(deliver, hasPolled: hasPolled.exchange(true, ordering: .relaxed))
        return nil
    }

    /// Wakes the reader, which delivers an empty batch (eventfd(2)).
    public func wake() { equipment.wakeUp.signal() }

    /// Has the kernel keep away the route messages that concern none of these addresses (SO_ATTACH_FILTER, socket(7)).
    ///
    /// Before the first call all are delivered. The filter is replaced in one step, for a socket that is in use as well.
    public func watch(_ destinations: Set<IPAddress>) {
        if usesFilter { equipment.filter.watch(destinations) }
    }

    /// Returns all links with their addresses (RTM_GETLINK, RTM_GETADDR).
    ///
    /// - Throws: ``ReachabilityError`` if the kernel refuses or does not answer within 2 s;
    ///   ``ReachabilityError/Code/interrupted`` if links or addresses changed meanwhile, at most five times in a row: then the dump
    ///   is taken as it is.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try equipment.dumpFailures.counting { isLast throws(ReachabilityError) in
            let interfaces = try asking { () throws(ReachabilityError) -> [NetworkInterface]? in
                let body = { (requests: borrowing KernelRequests) throws(ReachabilityError) in
                    try requests.interfaces(isLast: isLast)
                }
                return isReader ? try request(on: reading.dumps, body) : try request(on: aside.dumps, body)
            } orElse: { () throws(ReachabilityError) in
                try datagrams.interfaces()
            }
            // Thrown here, for its socket has been read to the end of the dump.
            guard let interfaces else {
                throw ReachabilityError(.interrupted, errno: EINTR, operation: "RTM_GETLINK and RTM_GETADDR")
            }
            return interfaces
        }
    }

    /// Looks up routes (RTM_GETROUTE): two system calls for up to eight queries.
    ///
    /// For ``RouteQuery/Source/selected`` a datagram socket is connected first, which sends nothing (connect(2), getsockname(2)).
    /// A query fails if the kernel does not answer within 2 s.
    public func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        guard queries.contains(where: { $0.source == .selected }) else { return lookUp(queries) }
        return queries.map { query in
            guard query.source == .selected else { return lookUp([query])[0] }
            do throws(ReachabilityError) {
                let connected = try datagrams.route(to: query)
                guard case .route(let route) = connected, let source = route.source else { return .success(connected) }
                let answer = lookUp([query.from(.address(source))])[0]
                // The socket is bound; a lookup with a source may lead elsewhere all the same, or to a route that refuses.
                if query.interface != nil, try !answer.get().leaves(by: query.interface) { return .success(connected) }
                return answer
            } catch {
                return .failure(error)
            }
        }
    }

    private func lookUp(_ queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        do throws(ReachabilityError) {
            return try asking { () throws(ReachabilityError) in
                let body = { (requests: borrowing KernelRequests) throws(ReachabilityError) in try requests.routes(queries) }
                return isReader ? try request(on: reading.lookups, body) : try request(on: aside.lookups, body)
            } orElse: { () throws(ReachabilityError) in
                try datagrams.routes(to: queries).map(Result.success)
            }
        } catch {
            return queries.map { _ in .failure(error) }
        }
    }

    private var isReader: Bool { reader.load(ordering: .relaxed) == pthread_self() }

    /// Runs the jobs of ``executor``: tasks that a condition resumed go on before streams are updated.
    package func runTasks() { _ = equipment.executor.runJobs() }

    /// Has a host looked up by the system (getaddrinfo(3)), on a thread of its own and in the source's network namespace.
    ///
    /// The name servers are those of this process's /etc/resolv.conf, also for another namespace.
    public func resolve(_ host: String) {
        equipment.resolver.resolve(host) { [wakeUp = equipment.wakeUp] in wakeUp.signal() }
    }

    /// Looks up hosts now (getaddrinfo(3)), on threads of their own; blocks for at most the given time.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        HostResolver.answers(for: hosts, namespace: equipment.namespace, within: limit)
    }

    /// Asks through netlink, or without if that is refused; if both fail, the user has to know of netlink.
    ///
    /// A shortage is only made up for while events are not read: a datagram socket knows less, and would publish that as a change.
    private func asking<Answer>(
        _ netlink: () throws(ReachabilityError) -> Answer, orElse datagrams: () throws(ReachabilityError) -> Answer
    ) throws(ReachabilityError) -> Answer {
        let refusal: ReachabilityError
        do throws(ReachabilityError) {
            return try netlink()
        } catch {
            let isShort = error.code == .resourcesExhausted && !isLive.load(ordering: .relaxed)
            guard error.code == .netlinkUnavailable || isShort else { throw error }
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
