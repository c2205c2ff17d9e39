internal import CNetlink
internal import Glibc

/// Reads the event socket and turns datagrams into batches.
///
/// Owned by one thread.
struct EventReader: ~Copyable {
    /// How many datagrams make a batch at most, so that a flood cannot put off the verdict.
    private static let batchLimit = 256
    /// How many datagrams are read after a loss before the monitor is told: more than any receive buffer here holds.
    ///
    /// The queue must be emptied first, for until then the kernel drops every further event without another error
    /// (netlink_overrun, NETLINK_S_CONGESTED).
    private static let drainLimit = 200_000

    private let socket: NetlinkSocket
    private let buffer = ReceiveBuffer()
    private let wakeUp: WakeUp
    private var suspension = Suspension()
    /// Whether events were lost since the queue was last empty.
    private var isLossy = false

    init(namespace: String?, _ wakeUp: WakeUp) throws(ReachabilityError) {
        try NetlinkSocket.check(min(wakeUp.descriptor, 0), "eventfd()")
        socket = try NetlinkSocket.forEvents(namespace: namespace, receiveBuffer: KernelNetwork.receiveBuffer)
        self.wakeUp = wakeUp
    }

    /// Delivers batches until it is stopped, or until waiting fails.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?) throws(ReachabilityError) {
        var batch = NetworkEventBatch(now: KernelClock.now, wallTime: KernelClock.wallTime, receiveBuffer: socket.receiveBuffer)
        while !wakeUp.isStopped {
            let deadline = deliver(batch).map { batch.now.saturatingAdd($0) }
            let ready = batch.hasMore ? Int32(CNL_READY_FIRST) : try wait(until: deadline)
            if ready & Int32(CNL_READY_SECOND) != 0 { wakeUp.clear() }
            batch = ready & Int32(CNL_READY_FIRST) != 0 ? try read() : NetworkEventBatch(now: .zero, wallTime: .zero)
            batch.now = KernelClock.now
            batch.wallTime = KernelClock.wallTime
            if let time = suspension.check() { batch.events.append(.resumed(after: time)) }
        }
    }

    private borrowing func wait(until deadline: Duration?) throws(ReachabilityError) -> Int32 {
        let rest = deadline.map { max(0, KernelClock.nanoseconds($0.saturatingSubtract(KernelClock.now))) } ?? -1
        let ready = cnl_wait(socket.descriptor, wakeUp.descriptor, rest)
        try NetlinkSocket.check(ready, "ppoll()")
        return ready
    }

    /// Reads what there is, up to a batch's size; after a loss, all there is.
    private mutating func read() throws(ReachabilityError) -> NetworkEventBatch {
        var batch = NetworkEventBatch(now: .zero, wallTime: .zero)
        var count = 0
        while count < (isLossy ? Self.drainLimit : Self.batchLimit) {
            var datagram = cnl_datagram()
            let length = socket.receive(into: buffer.bytes, &datagram)
            count += 1
            switch length {
            case 0...:
                guard datagram.port == 0 else {
                    batch.forged += 1
                    continue
                }
                if datagram.is_truncated { isLossy = true }
                decode(length, into: &batch)
            case -Int(EAGAIN):
                if isLossy { batch.events.append(.overrun) }
                isLossy = false
                return batch
            case -Int(ENOBUFS), -Int(ENOMEM):
                isLossy = true
            default:
                throw ReachabilityError(.requestFailed, errno: Int32(-length), operation: "recvmsg(netlink)")
            }
        }
        if isLossy { batch.events.append(.overrun) }
        batch.hasMore = true
        return batch
    }

    private borrowing func decode(_ length: Int, into batch: inout NetworkEventBatch) {
        MessageDecoder.forEach(in: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<length])) { message in
            if let event = MessageDecoder.event(message) {
                batch.events.append(event)
            } else if message.kind == CNL_MALFORMED {
                batch.malformed += 1
            }
        }
    }
}
