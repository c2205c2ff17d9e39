internal import CNetlink
internal import Glibc

/// Reads the event socket and turns datagrams into batches.
///
/// Owned by one thread.
struct EventReader: ~Copyable {
    /// What a reader works with.
    struct Equipment: Sendable {
        var namespace: String?
        /// The size of the receive buffer to ask for, in bytes.
        var receiveBuffer: UInt32
        var clock: KernelClock
        let wakeUp = WakeUp()
        let filter = SocketFilter()
        let dumpFailures = DumpFailures()
    }

    /// How many datagrams make a batch at most, so that a flood cannot put off the verdict.
    private static let batchLimit = 256
    /// How many datagrams are read after a loss before the monitor is told: more than any receive buffer here holds.
    ///
    /// The queue must be emptied first, for until then the kernel drops every further event without another error
    /// (netlink_overrun, NETLINK_S_CONGESTED).
    private static let drainLimit = 200_000

    private let equipment: Equipment
    private var socket: NetlinkSocket
    private let buffer = ReceiveBuffer()
    private let clockSteps = ClockSteps()
    private var suspension: Suspension
    private var detector = LossDetector()
    /// Whether anything was read since the drop counter was last looked at.
    private var hasHeard = false
    /// Whether a read said that events were lost since the queue was last empty.
    private var isLossy = false

    init(_ equipment: Equipment) throws(ReachabilityError) {
        self.equipment = equipment
        suspension = Suspension(total: equipment.clock.suspended)
        try NetlinkSocket.check(min(equipment.wakeUp.descriptor, 0), "eventfd()")
        socket = try NetlinkSocket.forEvents(equipment)
    }

    deinit { equipment.filter.detach() }

    /// Delivers batches until it is stopped, or until waiting fails.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?) throws(ReachabilityError) {
        let clock = equipment.clock
        var batch = NetworkEventBatch(now: clock.bootTime(), wallTime: clock.wallTime(), receiveBuffer: socket.receiveBuffer)
        while !equipment.wakeUp.isStopped {
            let deadline = deliver(batch).map { batch.now.saturatingAdd($0) }
            let isReadable = batch.hasMore ? true : try wait(until: deadline)
            batch = NetworkEventBatch(now: .zero, wallTime: .zero)
            if isReadable { try read(into: &batch) }
            if !batch.hasMore { try lookForLosses(&batch) }
            batch.now = clock.bootTime()
            batch.wallTime = clock.wallTime()
            if let time = suspension.note(total: clock.suspended) { batch.events.append(.resumed(after: time)) }
        }
    }

    /// Waits until there is something to do, and tells whether the socket is readable.
    private borrowing func wait(until deadline: Duration?) throws(ReachabilityError) -> Bool {
        let rest = deadline.map { max(0, $0.saturatingSubtract(equipment.clock.bootTime()).clampedNanoseconds) } ?? -1
        let descriptors = [socket.descriptor, equipment.wakeUp.descriptor, clockSteps.descriptor]
        let ready = cnl_wait(descriptors, descriptors.count, rest)
        try NetlinkSocket.check(ready, "ppoll()")
        if ready & 0b010 != 0 { equipment.wakeUp.clear() }
        if ready & 0b100 != 0 { clockSteps.clear() }
        return ready & 0b001 != 0
    }

    /// Reads what there is, up to a batch's size; after a loss, all there is.
    private mutating func read(into batch: inout NetworkEventBatch) throws(ReachabilityError) {
        var count = 0
        while count < (isLossy ? Self.drainLimit : Self.batchLimit) {
            var datagram = cnl_datagram()
            let length = socket.receive(into: buffer.bytes, &datagram)
            if length == -Int(EAGAIN) { return }
            count += 1
            hasHeard = true
            switch length {
            case 0...:
                guard datagram.port == 0 else {
                    batch.forged += 1
                    continue
                }
                if datagram.is_truncated { isLossy = true }
                batch.append(datagram: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<length]))
            case -Int(ENOBUFS), -Int(ENOMEM):
                isLossy = true
            default:
                throw ReachabilityError(.requestFailed, errno: Int32(-length), operation: "recvmsg(netlink)")
            }
        }
        if isLossy { batch.events.append(.overrun) }
        batch.hasMore = true
    }

    /// Looks at the drop counter, now that everything is read, and does what it calls for.
    private mutating func lookForLosses(_ batch: inout NetworkEventBatch) throws(ReachabilityError) {
        var finding = noteReading(&batch)
        if finding == .silentDrops {
            try read(into: &batch)
            guard !batch.hasMore else { return }
            finding = noteReading(&batch)
        }
        if finding == .reopen { reopen(&batch) }
        if finding != .nothing { batch.events.append(.overrun) }
    }

    private mutating func noteReading(_ batch: inout NetworkEventBatch) -> LossDetector.Finding {
        let reading = LossDetector.Reading(
            drops: socket.drops, hasHeard: hasHeard, hasError: isLossy, failedDumps: equipment.dumpFailures.inARow)
        (hasHeard, isLossy) = (false, false)
        let (finding, drops) = detector.note(reading)
        batch.drops += Int(drops)
        return finding
    }

    /// Opens a new socket; if that fails the old one has to do until the next finding.
    private mutating func reopen(_ batch: inout NetworkEventBatch) {
        do {
            socket = try NetlinkSocket.forEvents(equipment)
        } catch {
            return
        }
        detector.noteReopened()
        batch.reopens += 1
        batch.receiveBuffer = socket.receiveBuffer
    }
}
