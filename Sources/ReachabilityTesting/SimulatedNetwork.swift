internal import Glibc
public import Reachability
internal import Synchronization

/// A machine's network that does what a test tells it to, on a clock that the test moves.
///
/// ```swift
/// let clock = ManualClock()
/// let network = try SimulatedNetwork.online(clock: clock)
/// let monitor = ReachabilityMonitor(network)
/// let running = Task { try await monitor.run() }
/// try network.pull("eth0")              // published when the call returns
/// clock.advance(by: .milliseconds(250)) // and told to damped streams now
/// ```
///
/// It is a small model of the kernel: links, addresses and routes, with the messages that the kernel sends and those that it does
/// not. Safe to use from any thread; a change may also be made from within a monitor's callback, and is then delivered after it.
public final class SimulatedNetwork: NetworkSource {
    /// What a route does with packets.
    public enum RouteKind: Hashable, Sendable {
        /// Sends them.
        case unicast
        /// Refuses them with EHOSTUNREACH.
        case unreachable
        /// Refuses them with EACCES.
        case prohibit
        /// Refuses them with EINVAL.
        case blackhole
    }

    /// The time of day when the clock shows zero: 2026-01-01T00:00:00Z.
    public static let startOfTime: Duration = .seconds(1_767_225_600)

    /// The clock that the network goes by.
    public let clock: ManualClock

    struct State {
        enum Phase {
            case idle
            case running(CheckedContinuation<Void, any Error>?)
            case stopped((any Error)?)
        }

        var kernel = SimulatedKernel()
        var phase = Phase.idle
        var deliver: (@Sendable (NetworkEventBatch) -> Duration?)?
        var queue: [NetworkEventBatch] = []
        var isWoken = false
        var timer: UInt64?
        /// Where events go while several changes are made as one.
        var collected: [NetworkEvent]?
        var lookups = 0
        var dumps = 0
        var failures: (count: Int, errno: Int32) = (0, 0)
    }

    let state = Mutex(State())
    /// Held while delivering, so that batches come one after the other.
    private let turn = Mutex(())
    /// The thread that delivers, to let it make changes itself.
    private let deliverer = Atomic<UInt>(0)

    /// Makes a machine with nothing but its loopback device.
    public init(clock: ManualClock = ManualClock()) { self.clock = clock }

    /// Makes a machine with a cable `eth0`, the address 192.0.2.10/24 and a default route via 192.0.2.1; with IPv6 also
    /// 2001:db8::10/64 and a default route via fe80::1.
    public static func online(clock: ManualClock = ManualClock(), ipv6: Bool = false) throws(SimulationError) -> SimulatedNetwork {
        let network = SimulatedNetwork(clock: clock)
        try network.addLink("eth0")
        try network.addAddress("192.0.2.10/24", to: "eth0")
        try network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0")
        if ipv6 {
            try network.addAddress("2001:db8::10/64", to: "eth0")
            try network.addRoute(to: "default6", via: "fe80::1", dev: "eth0")
        }
        return network
    }

    /// How many look-ups were answered, failed ones included.
    public var lookups: Int { state.withLock(\.lookups) }

    /// How many dumps of links and addresses were answered, failed ones included.
    public var dumps: Int { state.withLock(\.dumps) }

    // MARK: - Delivery

    func batch(_ events: [NetworkEvent] = []) -> NetworkEventBatch {
        let now = clock.now.offset
        return NetworkEventBatch(events, now: now, wallTime: Self.startOfTime.saturatingAdd(now))
    }

    /// Changes the model and delivers what the kernel would announce.
    func change<Result: Sendable, Failure: Error>(
        _ body: (inout SimulatedKernel) throws(Failure) -> (Result, [NetworkEvent])
    ) throws(Failure) -> Result {
        let (result, batch) = try state.withLock { state throws(Failure) -> (Result, NetworkEventBatch?) in
            let (result, events) = try body(&state.kernel)
            guard state.collected == nil else {
                state.collected? += events
                return (result, nil)
            }
            return (result, events.isEmpty ? nil : self.batch(events))
        }
        if let batch { enqueue(batch) }
        return result
    }

    /// Delivers a batch; it has been delivered when the call returns, unless the call comes from within a delivery.
    func enqueue(_ batch: NetworkEventBatch) {
        state.withLock { if $0.deliver != nil { $0.queue.append(batch) } }
        takeTurn()
    }

    func takeTurn() {
        let me = pthread_self()
        // Within a delivery: whoever delivers goes on until nothing is left.
        guard deliverer.load(ordering: .acquiring) != me else { return }
        turn.withLock { _ in
            deliverer.store(me, ordering: .releasing)
            while let (batch, deliver) = next() { arm(deliver(batch), since: batch.now) }
            deliverer.store(0, ordering: .releasing)
        }
    }

    private func next() -> (NetworkEventBatch, @Sendable (NetworkEventBatch) -> Duration?)? {
        state.withLock { state in
            guard let deliver = state.deliver else {
                state.queue = []
                return nil
            }
            // Any batch is as good as the empty one that was asked for.
            let isWoken = state.isWoken
            state.isWoken = false
            if !state.queue.isEmpty { return (state.queue.removeFirst(), deliver) }
            return isWoken ? (batch(), deliver) : nil
        }
    }

    private func arm(_ wait: Duration?, since now: Duration) {
        let timer = wait.map { wait in
            clock.schedule(at: ManualClock.Instant(offset: now.saturatingAdd(wait))) { [weak self] in
                guard let self else { return }
                enqueue(batch())
            }
        }
        let old = state.withLock { state in
            let old = state.timer
            state.timer = timer
            return old
        }
        if let old { clock.cancel(old) }
    }
}
