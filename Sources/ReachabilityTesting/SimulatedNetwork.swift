internal import Reachability
internal import Synchronization

/// A network to test with: a small model of the kernel, on a clock that passes when told to.
///
/// Give it to a `ReachabilityMonitor` as its source, then pull its cables. Each change is published when the call that makes it
/// returns: what the monitor publishes synchronously (its path, its conditions) can be checked in the next line, without
/// waiting or sleeping.
///
/// ```swift
/// let network = SimulatedNetwork.online()
/// let monitor = ReachabilityMonitor(network)
/// let running = Task { try await monitor.run() }
/// try await network.untilRunning()
/// try network.pull("eth0")
/// #expect(monitor.path.offlineReason == .noCarrier)
/// ```
///
/// All members can be used from any thread. Batches are delivered one after the other, by the thread that made the change; a
/// thread that finds another one delivering waits until its own batch has been delivered too. A change made from within
/// `deliver` is delivered by the same thread after `deliver` returned. Nobody else's code runs while the model is locked.
public final class SimulatedNetwork: Sendable {
    /// The clock that stamps the batches and runs the monitor's timers.
    public let clock: ManualClock

    /// The time of day when the clock is at zero: 2026-01-01T00:00:00Z, since 1970-01-01T00:00:00Z.
    public static let startOfTime = Duration.seconds(1_767_225_600)

    /// Held for moments only, never while anything of others runs.
    let state: Mutex<SimulatedNetworkState>
    /// Held while `deliver` runs.
    ///
    /// That is others' code, which must not wait for a thread that changes this network.
    let delivery = Mutex(Delivery())

    /// What only the delivering thread touches.
    struct Delivery: Sendable {
        /// What the last call of `deliver` asked for.
        var timer: ManualClock.Timer?
    }

    /// Makes a network out of a model, by default one with the loopback device alone.
    public init(_ kernel: SimulatedKernel = SimulatedKernel(), clock: ManualClock = ManualClock()) {
        self.clock = clock
        var kernel = kernel
        kernel.takeOver(clock.now.offset)
        state = Mutex(SimulatedNetworkState(kernel: kernel))
        scheduleModel()
    }

    /// Makes a network with one cable, `eth0`, that leads to the internet: 192.0.2.10/24 with a default route through 192.0.2.1.
    ///
    /// With IPv6 it also has fe80::10/64, 2001:db8::10/64 and a default route through fe80::1.
    public static func online(clock: ManualClock = ManualClock(), hasIPv6: Bool = false) -> SimulatedNetwork {
        var kernel = SimulatedKernel()
        kernel.connectCable(hasIPv6: hasIPv6)
        return SimulatedNetwork(kernel, clock: clock)
    }

    /// The model as it is now.
    public var kernel: SimulatedKernel { state.withLock { $0.kernel } }

    /// How many look-ups were asked for, failed ones included.
    public var lookups: Int { state.withLock { $0.lookups } }

    /// How many dumps of the links and addresses were asked for, failed ones included.
    public var dumps: Int { state.withLock { $0.dumps } }

    /// Whether somebody runs it.
    public var isRunning: Bool { state.withLock { $0.run != nil } }
}
