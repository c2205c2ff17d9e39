internal import CNetlink
internal import Glibc

/// Reads the event socket and turns datagrams into batches.
///
/// Owned by one thread.
struct EventReader: ~Copyable {
    /// What a reader works with.
    struct Equipment: Sendable {
        let namespace: String?
        /// The size of the receive buffer to ask for, in bytes.
        var receiveBuffer: UInt32
        var clock: KernelClock
        let wakeUp: EventFD
        let executor: ReaderExecutor
        let filter = SocketFilter()
        let dumpFailures = DumpFailures()
        let resolver: HostResolver

        init(namespace: String?, receiveBuffer: UInt32, clock: KernelClock) {
            (self.namespace, self.receiveBuffer, self.clock) = (namespace, receiveBuffer, clock)
            let wakeUp = EventFD()
            self.wakeUp = wakeUp
            executor = ReaderExecutor { wakeUp.interrupt() }
            resolver = HostResolver(namespace: namespace)
        }
    }

    /// Why the reader is awake.
    private struct Awakening: OptionSet {
        let rawValue: Int32

        static let socketIsReadable = Awakening(rawValue: 1 << 0)
        static let batchIsWanted = Awakening(rawValue: 1 << 1)
        static let clockWasSet = Awakening(rawValue: 1 << 2)
        static let timeIsUp = Awakening(rawValue: 1 << 3)
    }

    /// How many datagrams make a batch at most, so that a flood cannot put off the verdict.
    private static let batchLimit = 256
    /// How many datagrams are read after a loss before the monitor is told: more than any receive buffer here holds.
    ///
    /// The queue must be emptied first, for until then the kernel drops every further event without another error
    /// (netlink_overrun, NETLINK_S_CONGESTED).
    private static let drainLimit = 200_000

    /// How long after lone datagrams the drop counter is looked at: those whom the delivery has woken come first.
    private static let lookDelay: Duration = .milliseconds(10)

    private let equipment: Equipment
    private var socket: NetlinkSocket
    private let buffer = DatagramBuffer()
    private let clockSteps: ClockChangeTimer
    private let waitSet: Epoll
    private var suspension: Suspension
    private var detector = LossDetector()
    private var coalescing = ReadCoalescing()
    /// How many datagrams were read since the rate was last looked at.
    private var datagrams = 0
    /// Whether anything was read since the drop counter was last looked at.
    private var hasHeard = false
    /// Whether a read said that events were lost since the queue was last empty.
    private var isLossy = false
    /// Whether a lone datagram was delivered without a look at the drop counter.
    private var owesLook = false
    /// When the look is due that lone datagrams have put off.
    private var lookDue: Duration?

    init(_ equipment: Equipment) throws(ReachabilityError) {
        self.equipment = equipment
        suspension = Suspension(total: equipment.clock.suspended)
        try NetlinkSocket.check(min(equipment.wakeUp.descriptor, 0), "eventfd()")
        let waitSet = try Epoll()
        let clockSteps = ClockChangeTimer()
        try waitSet.add(equipment.wakeUp.descriptor, at: Awakening.batchIsWanted.rawValue)
        if clockSteps.descriptor >= 0 { try waitSet.add(clockSteps.descriptor, at: Awakening.clockWasSet.rawValue) }
        socket = try NetlinkSocket.forEvents(equipment, reportedBy: waitSet, at: Awakening.socketIsReadable.rawValue)
        self.waitSet = waitSet
        self.clockSteps = clockSteps
    }

    deinit { equipment.filter.detach() }

    /// Delivers batches until it is stopped, or until waiting fails; in between it runs the jobs of the executor.
    ///
    /// - Parameter hasPolled: if true, events may have been missed before.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?, hasPolled: Bool) throws(ReachabilityError) {
        let (clock, executor) = (equipment.clock, equipment.executor)
        executor.open()
        defer { executor.close() }
        var batch = NetworkEventBatch(
            hasPolled ? [.overrun] : [], now: BootInstant(sinceBoot: clock.bootTime), wallTime: clock.wallTime,
            receiveBuffer: socket.receiveBuffer)
        while !equipment.wakeUp.isStopped {
            let deadline = deliver(batch).map { batch.now.sinceBoot.saturatingAdd($0) }
            coalescing.note(datagrams, at: batch.now.sinceBoot)
            datagrams = 0
            if let late = try lookBack(at: batch.now.sinceBoot) {
                batch = late
            } else {
                let look = owesLook ? lookDue : nil
                let hasMore = batch.hasMore
                batch.removeAll()
                let isReadable = try rest(until: Duration.earlier(deadline, look), hasMore: hasMore)
                owesLook = false
                if isReadable { try read(into: &batch) }
                if !batch.hasMore && !owesLook {
                    lookDue = nil
                    try lookForLosses(&batch)
                }
            }
            let now = clock.bootTime
            batch.now = BootInstant(sinceBoot: now)
            batch.wallTime = clock.wallTime
            if let answers = equipment.resolver.takeAnswers() { batch.events += answers }
            let suspended = now.saturatingSubtract(clock.monotonicTime)
            if let time = suspension.note(total: suspended) { batch.events.append(.resumed(after: time)) }
        }
    }

    /// Runs jobs and sleeps until the monitor has to be called, and tells whether the socket is readable.
    ///
    /// Jobs get one round at a time: however many follow one another, the network is looked after in between.
    private borrowing func rest(until deadline: Duration?, hasMore: Bool) throws(ReachabilityError) -> Bool {
        while true {
            let hasJobs = equipment.executor.runJobs()
            if hasMore { return true }
            if !hasJobs, coalescing.isFlood, socket.receiveBuffer ?? 0 >= ReadCoalescing.leastBuffer {
                _ = cnl_wait(nil, 0, ReadCoalescing.pause.clampedNanoseconds)
            }
            let awakening = try wait(until: deadline, isBusy: hasJobs)
            if !awakening.isEmpty { return awakening.contains(.socketIsReadable) }
        }
    }

    /// Waits until there is something to do, unless it is busy; empty if that is nothing for the monitor.
    private borrowing func wait(until deadline: Duration?, isBusy: Bool) throws(ReachabilityError) -> Awakening {
        let rest = deadline.map { max(0, $0.saturatingSubtract(equipment.clock.bootTime).clampedNanoseconds) }
        let limit = isBusy ? 0 : rest ?? -1
        var awakening = Awakening(rawValue: try waitSet.wait(nanoseconds: limit))
        // Also if a signal handler ended the sleep: an empty batch more does no harm.
        if awakening.isEmpty, !isBusy || rest == 0 { awakening.insert(.timeIsUp) }
        if awakening.contains(.batchIsWanted), !equipment.wakeUp.clear() { awakening.remove(.batchIsWanted) }
        if awakening.contains(.clockWasSet) { clockSteps.clear() }
        return awakening
    }

    /// Reads what there is, up to a batch's size; after a loss, all there is.
    private mutating func read(into batch: inout NetworkEventBatch) throws(ReachabilityError) {
        var count = 0
        // Most events come alone: the second place shows that nothing follows, and the drop counter can wait for the verdict.
        var wanted = 2
        while count < (isLossy ? Self.drainLimit : Self.batchLimit) {
            let received = socket.receive(wanted, into: buffer)
            if received == -Int(EAGAIN) { return }
            hasHeard = true
            switch received {
            case 0...:
                take(received, into: &batch)
                datagrams += received
                if count == 0 && received == 1 && !isLossy {
                    owesLook = true
                    return
                }
                count += received
            case -Int(ENOBUFS), -Int(ENOMEM):
                isLossy = true
                count += 1
            default:
                throw ReachabilityError(.requestFailed, errno: Int32(-received), operation: "recvmmsg(netlink)")
            }
            wanted = Int(CNL_DATAGRAM_LIMIT)
        }
        if isLossy { batch.events.append(.overrun) }
        batch.hasMore = true
    }

    /// Decodes what was received.
    private mutating func take(_ received: Int, into batch: inout NetworkEventBatch) {
        for index in 0..<received {
            let datagram = buffer.datagrams[index]
            guard datagram.port == 0 else {
                batch.spoofed += 1
                continue
            }
            if datagram.is_truncated { isLossy = true }
            batch.append(
                datagram: UnsafeRawBufferPointer(start: buffer.bytes + Int(datagram.offset), count: Int(datagram.length)))
        }
    }

    /// The look at the drop counter that lone datagrams have put off, if it is due; what is to be told because of it.
    private mutating func lookBack(at now: Duration) throws(ReachabilityError) -> NetworkEventBatch? {
        guard owesLook else { return nil }
        guard let due = lookDue else {
            lookDue = now.saturatingAdd(Self.lookDelay)
            return nil
        }
        guard due <= now else { return nil }
        lookDue = nil
        owesLook = false
        // Those who were resumed by the delivery do not wait for it, either.
        _ = equipment.executor.runJobs()
        var batch = NetworkEventBatch(now: BootInstant(sinceBoot: .zero), wallTime: .zero)
        let drops = socket.queue?.drops
        if let drops, detector.isNews(drops) {
            // Until the queue was empty once, the kernel says nothing of further losses.
            isLossy = true
            try read(into: &batch)
            if !batch.hasMore { try lookForLosses(&batch) }
        } else {
            try lookForLosses(&batch, drops: drops)
        }
        return batch.isEmpty ? nil : batch
    }

    /// Looks at the drop counter, now that everything is read, and does what it calls for.
    ///
    /// - Parameter drops: what it says, if it was looked at just now.
    private mutating func lookForLosses(_ batch: inout NetworkEventBatch, drops: UInt32? = nil) throws(ReachabilityError) {
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
            drops: drops ?? socket.queue?.drops, hasHeard: hasHeard, hasError: isLossy,
            failedDumps: equipment.dumpFailures.inARow)
        (hasHeard, isLossy) = (false, false)
        let (finding, drops) = detector.note(reading)
        batch.drops += Int(drops)
        return finding
    }

    /// Opens a new socket; if that fails the old one has to do until the next finding.
    private mutating func reopen(_ batch: inout NetworkEventBatch) {
        do {
            socket = try NetlinkSocket.forEvents(equipment, reportedBy: waitSet, at: Awakening.socketIsReadable.rawValue)
        } catch {
            equipment.filter.attach(to: socket.descriptor)
            return
        }
        detector.noteReopened()
        batch.reopens += 1
        batch.receiveBuffer = socket.receiveBuffer
    }
}
