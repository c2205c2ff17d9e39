internal import CNetlink
internal import Glibc

/// The parts that a source shares with its reader.
struct ReaderContext: Sendable {
    let namespace: String?
    /// The requested size of the receive buffer, in bytes.
    let receiveBuffer: UInt32
    let clock: KernelClock
    let wakeUp: EventFD
    let executor: ReaderExecutor
    /// The event socket that was handed to the source.
    let inherited: InheritedSocket?
    let filter = SocketFilter()
    let dumpFailures = DumpFailures()
    let resolver: HostResolver
    /// The folder of ``ResolverFiles``.
    let resolverRoot: String

    init(
        namespace: String?, receiveBuffer: UInt32, clock: KernelClock, inherited: InheritedSocket? = nil, resolverRoot: String = ""
    ) {
        (self.namespace, self.receiveBuffer, self.clock) = (namespace, receiveBuffer, clock)
        (self.inherited, self.resolverRoot) = (inherited, resolverRoot)
        let wakeUp = EventFD()
        self.wakeUp = wakeUp
        executor = ReaderExecutor { wakeUp.interrupt() }
        resolver = HostResolver(namespace: namespace)
    }

    /// Stamps a batch with the time, and adds host answers and the end of a suspension.
    // Inlined like ``Epoll/wait(nanoseconds:)``: it lies between each event and its verdict.
    @inline(__always)
    func complete(_ batch: inout NetworkEventBatch, _ suspension: inout Suspension) {
        let now = clock.bootTime
        batch.now = BootInstant(sinceBoot: now)
        batch.wallTime = clock.wallTime
        if let answers = resolver.takeAnswers() { batch.events += answers }
        let suspended = now.saturatingSubtract(clock.monotonicTime)
        if let time = suspension.note(total: suspended) { batch.events.append(.resumed(after: time)) }
    }
}

/// Reads the event socket and delivers batches of decoded datagrams.
///
/// Owned by one thread.
struct EventReader: ~Copyable {
    /// The reasons for the end of a wait.
    private struct Awakening: OptionSet {
        let rawValue: Int32

        static let socketIsReadable = Awakening(rawValue: 1 << 0)
        static let batchIsRequested = Awakening(rawValue: 1 << 1)
        static let clockWasSet = Awakening(rawValue: 1 << 2)
        static let timeIsUp = Awakening(rawValue: 1 << 3)
        static let filesChanged = Awakening(rawValue: 1 << 4)
    }

    private let context: ReaderContext
    private var socket: NetlinkSocket
    private let buffer = DatagramBuffer()
    private let clockTimer: ClockChangeTimer
    private let epoll: Epoll
    private var suspension: Suspension
    private var detector = LossDetector()
    private var coalescing = ReadCoalescing()
    private var resolverFiles: ResolverFiles
    /// The number of lookups of hosts that are known to ``resolverFiles``.
    private var lookups = 0
    /// The number of datagrams since the rate was last measured.
    private var datagrams = 0

    init(_ context: ReaderContext) throws(ReachabilityError) {
        self.context = context
        suspension = Suspension(total: context.clock.suspended)
        resolverFiles = ResolverFiles(root: context.resolverRoot)
        try ReachabilityError.check(min(context.wakeUp.descriptor, 0), "eventfd()")
        let epoll = try Epoll()
        let clockTimer = ClockChangeTimer()
        try epoll.add(context.wakeUp.descriptor, at: Awakening.batchIsRequested.rawValue)
        if clockTimer.descriptor >= 0 { try epoll.add(clockTimer.descriptor, at: Awakening.clockWasSet.rawValue) }
        socket = try NetlinkSocket.forEvents(context, reportedBy: epoll, at: Awakening.socketIsReadable.rawValue)
        self.epoll = epoll
        self.clockTimer = clockTimer
    }

    deinit { context.filter.detach() }

    /// Delivers batches until it is stopped or a wait fails, and runs the executor's jobs in between.
    ///
    /// - Parameter mayHaveMissed: `true` if events may have been missed before; the first batch then starts a resync.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?, mayHaveMissed: Bool) throws(ReachabilityError) {
        let (clock, executor) = (context.clock, context.executor)
        executor.open()
        defer { executor.close() }
        var batch = NetworkEventBatch(
            mayHaveMissed ? [.overrun] : [], now: BootInstant(sinceBoot: clock.bootTime), wallTime: clock.wallTime,
            receiveBuffer: socket.receiveBuffer)
        if socket.isInherited { try readInheritance(into: &batch) }
        // Events that were read are delivered, also after a stop: the next reader of the same socket does not find them.
        while !context.wakeUp.isStopped || !batch.events.isEmpty {
            let deadline = deliver(batch).map { batch.now.sinceBoot.saturatingAdd($0) }
            if context.wakeUp.isStopped { return }
            noteLookups()
            coalescing.note(datagrams, at: batch.now.sinceBoot)
            datagrams = 0
            try next(&batch, until: deadline)
            context.complete(&batch, &suspension)
        }
    }

    /// Reads what waits in a socket that was taken over.
    ///
    /// All of it comes before the first dump: none of these events is then taken for a change after the dump.
    private mutating func readInheritance(into batch: inout NetworkEventBatch) throws(ReachabilityError) {
        // Earlier readers have counted the drops so far. ENOBUFS reports those that none of them has seen.
        detector = LossDetector(drops: socket.queue?.drops ?? 0)
        repeat {
            batch.hasMore = false
            try read(into: &batch)
        } while batch.hasMore && batch.events.count < LossDetector.drainLimit
        try checkDrops(&batch)
    }

    /// Waits for the next batch: events, a request for a batch, or the time at which the monitor wants one.
    ///
    /// A deferred drop check that finds nothing is none of these, and ends no wait; neither does a message that concerns nothing.
    private mutating func next(_ batch: inout NetworkEventBatch, until deadline: Duration?) throws(ReachabilityError) {
        let hasMore = batch.hasMore
        var now = batch.now.sinceBoot
        batch.removeAll()
        while true {
            if let late = try deferredDropCheck(at: now) {
                batch = late
                return
            }
            var awakening = try rest(until: Duration.earlier(deadline, detector.deferredCheck), hasMore: hasMore)
            if awakening == .timeIsUp, let check = detector.deferredCheck {
                now = context.clock.bootTime
                if check <= now, deadline.map({ now < $0 }) ?? true { continue }
            }
            detector.beginReading()
            if awakening.contains(.socketIsReadable) { try read(into: &batch) }
            if detector.takeCheck(hasMore: batch.hasMore) { try checkDrops(&batch) }
            if awakening.remove(.filesChanged) != nil { batch.append(resolverFiles.takeChanges(at: context.clock.bootTime)) }
            // After a batch that announced more the monitor waits for another one.
            if !awakening.isSubset(of: .socketIsReadable) || hasMore || !batch.isEmpty { return }
            now = context.clock.bootTime
        }
    }

    /// Watches the resolver's files once a host was looked up.
    private mutating func noteLookups() {
        let count = context.resolver.lookups
        guard count != lookups else { return }
        lookups = count
        resolverFiles.noteLookup(reportedBy: epoll, at: Awakening.filesChanged.rawValue)
    }

    /// Runs jobs and waits until the monitor may have to be called.
    ///
    /// Jobs get one round at a time: however many follow, the reader looks at the network in between.
    private borrowing func rest(until deadline: Duration?, hasMore: Bool) throws(ReachabilityError) -> Awakening {
        while true {
            let hasJobs = context.executor.runJobs()
            if hasMore { return .socketIsReadable }
            if !hasJobs, coalescing.isFlood, socket.receiveBuffer ?? 0 >= ReadCoalescing.leastBuffer {
                _ = cnl_wait(nil, 0, ReadCoalescing.pause.clampedNanoseconds)
            }
            let awakening = try wait(until: deadline, isBusy: hasJobs)
            if !awakening.isEmpty { return awakening }
        }
    }

    /// Waits until there is work, or only polls if it is busy; empty without work for the monitor.
    private borrowing func wait(until deadline: Duration?, isBusy: Bool) throws(ReachabilityError) -> Awakening {
        let rest = deadline.map { max(0, $0.saturatingSubtract(context.clock.bootTime).clampedNanoseconds) }
        let limit = isBusy ? 0 : rest ?? -1
        var awakening = Awakening(rawValue: try epoll.wait(nanoseconds: limit))
        // Empty without the limit after a signal handler, and when a process that was stopped continues.
        if awakening.isEmpty, let deadline, deadline <= context.clock.bootTime { awakening.insert(.timeIsUp) }
        if awakening.contains(.batchIsRequested), !context.wakeUp.clear() { awakening.remove(.batchIsRequested) }
        if awakening.contains(.clockWasSet) { clockTimer.clear() }
        return awakening
    }

    /// Reads the queue, up to the size of a batch; after a loss, to its end.
    private mutating func read(into batch: inout NetworkEventBatch) throws(ReachabilityError) {
        var count = 0
        // Most events come alone. The empty second slot proves it, and the drop check can wait for the verdict.
        var slots = 2
        while count < detector.readLimit {
            let received = socket.receive(slots, into: buffer)
            if received == -Int(EAGAIN) { return }
            switch received {
            case 0...:
                take(received, into: &batch)
                datagrams += received
                if detector.note(datagrams: received, isFirst: count == 0) { return }
                count += received
            case -Int(ENOBUFS), -Int(ENOMEM):
                detector.noteLossError()
                count += 1
            default:
                throw ReachabilityError(.requestFailed, errno: Int32(-received), operation: "recvmmsg(netlink)")
            }
            slots = Int(CNL_DATAGRAM_LIMIT)
        }
        if detector.isLossy { batch.events.append(.overrun) }
        batch.hasMore = true
    }

    /// Decodes received datagrams.
    private mutating func take(_ received: Int, into batch: inout NetworkEventBatch) {
        for index in 0..<received {
            let datagram = buffer.datagrams[index]
            guard datagram.port == 0 else {
                batch.spoofed += 1
                continue
            }
            if datagram.is_truncated { detector.noteTruncation() }
            batch.append(
                datagram: UnsafeRawBufferPointer(start: buffer.bytes + Int(datagram.offset), count: Int(datagram.length)))
        }
    }

    /// Makes the drop check that lone datagrams deferred, if it is due, and returns what has to be delivered because of it.
    private mutating func deferredDropCheck(at now: Duration) throws(ReachabilityError) -> NetworkEventBatch? {
        guard detector.takeDeferredCheck(at: now) else { return nil }
        // Tasks that the delivery resumed run first.
        _ = context.executor.runJobs()
        var batch = NetworkEventBatch(now: BootInstant(sinceBoot: .zero), wallTime: .zero)
        let drops = socket.queue?.drops
        if let drops, detector.noteDeferred(drops: drops) {
            try read(into: &batch)
            if !batch.hasMore { try checkDrops(&batch) }
        } else {
            try checkDrops(&batch, drops: drops)
        }
        return batch.isEmpty ? nil : batch
    }

    /// Compares the drop counter after the queue was read to its end, and reacts to a finding.
    ///
    /// - Parameter drops: the counter, if the caller has just read it.
    private mutating func checkDrops(_ batch: inout NetworkEventBatch, drops: UInt32? = nil) throws(ReachabilityError) {
        var finding = noteReading(&batch, drops)
        if finding == .silentDrops {
            try read(into: &batch)
            guard !batch.hasMore else { return }
            finding = noteReading(&batch, nil)
        }
        if finding == .reopen { reopen(&batch) }
        if finding != .nothing { batch.events.append(.overrun) }
    }

    private mutating func noteReading(_ batch: inout NetworkEventBatch, _ drops: UInt32?) -> LossDetector.Finding {
        let reading = LossDetector.Reading(
            drops: drops ?? socket.queue?.drops, failedDumps: context.dumpFailures.inARow)
        let (finding, drops) = detector.note(reading)
        batch.drops += Int(drops)
        return finding
    }

    /// Opens a new socket.
    ///
    /// On failure the old one stays until the next finding.
    private mutating func reopen(_ batch: inout NetworkEventBatch) {
        do {
            socket = try NetlinkSocket.forEvents(context, reportedBy: epoll, at: Awakening.socketIsReadable.rawValue)
        } catch {
            context.filter.attach(to: socket.descriptor)
            return
        }
        detector.noteReopened()
        batch.reopens += 1
        batch.receiveBuffer = socket.receiveBuffer
    }
}

/// Replaces the ``EventReader`` while there are no events: its batches carry the time and make the monitor poll.
///
/// Owned by one thread.
struct PollingReader: ~Copyable {
    private let context: ReaderContext
    private let clockTimer = ClockChangeTimer()
    private var suspension: Suspension
    private var resolverFiles: ResolverFiles
    private let cause: ReachabilityError

    /// The interval between checks for calls without a descriptor to wait for.
    private static let blindPause: Duration = .milliseconds(100)

    /// - Parameter cause: the reason why there are no events.
    init(_ context: ReaderContext, because cause: ReachabilityError) {
        self.context = context
        self.cause = cause
        suspension = Suspension(total: context.clock.suspended)
        resolverFiles = ResolverFiles(root: context.resolverRoot)
    }

    /// Delivers batches until it is stopped, a wait fails, or the limit has passed.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?, for limit: Duration?) throws(ReachabilityError) {
        let end = limit.map { context.clock.bootTime.saturatingAdd($0) }
        while !context.wakeUp.isStopped {
            var batch = NetworkEventBatch(now: BootInstant(sinceBoot: .zero), wallTime: .zero, isPolled: true, impairment: cause)
            context.complete(&batch, &suspension)
            if context.resolver.lookups > 0 { batch.append(resolverFiles.takeChanges(at: batch.now.sinceBoot)) }
            let deadline = deliver(batch).map { batch.now.sinceBoot.saturatingAdd($0) }
            try wait(until: Duration.earlier(deadline, end))
            if let end, end <= context.clock.bootTime { return }
        }
    }

    private borrowing func wait(until deadline: Duration?) throws(ReachabilityError) {
        let descriptors = [context.wakeUp.descriptor, clockTimer.descriptor]
        let isDeaf = context.wakeUp.descriptor < 0
        while true {
            var rest = deadline.map { max(.zero, $0.saturatingSubtract(context.clock.bootTime)) }
            if isDeaf { rest = min(rest ?? Self.blindPause, Self.blindPause) }
            let ready = cnl_wait(descriptors, descriptors.count, rest?.clampedNanoseconds ?? -1)
            try ReachabilityError.check(ready, "ppoll()")
            let isRequested = ready & 0b01 != 0 || isDeaf ? context.wakeUp.clear() : false
            if ready & 0b10 != 0 { clockTimer.clear() }
            let isDue = deadline.map { $0 <= context.clock.bootTime } ?? false
            if isRequested || isDue || ready != 0 || context.wakeUp.isStopped { return }
            if !isDeaf && rest == nil { return }
        }
    }
}

extension NetworkEventBatch {
    /// `true` if the batch holds nothing for a monitor.
    fileprivate var isEmpty: Bool {
        events.isEmpty && !hasMore && spoofed == 0 && malformed == 0 && drops == 0 && reopens == 0 && receiveBuffer == nil
    }

    /// Adds changed files of the resolver.
    mutating func append(_ files: [String]) {
        for file in files { events.append(.resolverChanged(file: file)) }
    }

    /// Empties the batch for reuse.
    ///
    /// Keeps the memory of its events unless that is more than most batches need.
    package mutating func removeAll() {
        events.removeAll(keepingCapacity: events.capacity <= 512)
        (hasMore, spoofed, malformed, drops, reopens, receiveBuffer) = (false, 0, 0, 0, 0, nil)
    }

    /// Adds the events of a datagram, which may hold any bytes.
    ///
    /// Counts and skips malformed messages; skips messages that do not concern reachability.
    mutating func append(datagram: UnsafeRawBufferPointer) {
        MessageDecoder.forEach(in: datagram) { message, start in
            if let event = MessageDecoder.event(message, of: start) {
                events.append(event)
            } else if message.kind == CNL_MALFORMED {
                malformed += 1
            }
        }
    }
}
