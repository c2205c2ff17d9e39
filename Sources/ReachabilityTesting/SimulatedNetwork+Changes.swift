public import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Makes several changes at once and delivers their events as one batch; none if nothing was announced.
    ///
    /// - Parameters:
    ///   - hasMore: Whether the batch says that more is waiting to be read.
    ///   - changes: Changes a copy of the model. If another thread changes the network meanwhile, it is run again on a new
    ///     copy; if it throws, nothing is changed.
    @discardableResult
    public func batch<Value, Failure: Error>(
        hasMore: Bool = false, _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { $0.isEmpty ? nil : .init(events: $0, hasMore: hasMore) }
    }

    /// Makes changes and delivers nothing of them: what a kernel does that forgets to tell.
    ///
    /// Only an audit can find them.
    ///
    /// - Parameter changes: As for ``batch(hasMore:_:)``.
    @discardableResult
    public func changeSilently<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { _ in nil }
    }

    /// Makes changes whose events are lost, and delivers `NetworkEvent.overrun` instead: a receive buffer that was full
    /// (ENOBUFS, netlink(7)).
    ///
    /// - Parameter changes: As for ``batch(hasMore:_:)``.
    @discardableResult
    public func loseEvents<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { _ in .init(events: [.overrun]) }
    }

    private func change<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value,
        announcing letter: ([NetworkEvent]) -> SimulatedNetworkState.Letter?
    ) throws(Failure) -> Value {
        while true {
            var (kernel, revision) = state.withLock { ($0.kernel, $0.revision) }
            kernel.now = max(kernel.now, clock.now.offset)
            let value = try changes(&kernel)
            let mail = letter(kernel.takeEvents())
            guard state.withLock({ $0.commit(kernel, since: revision, mail) }) else { continue }
            scheduleModel()
            if mail != nil { deliverAll() }
            return value
        }
    }

    /// Delivers hints although nothing changed.
    public func announce(_ events: NetworkEvent..., hasMore: Bool = false) {
        deliver(.init(events: events, hasMore: hasMore))
    }

    /// Delivers a batch that counts datagrams whose sender is not the kernel.
    public func announceSpoofed(_ count: Int) { deliver(.init(spoofed: count)) }

    /// Delivers a batch that counts messages which could not be understood.
    public func announceMalformed(_ count: Int) { deliver(.init(malformed: count)) }

    /// Delivers a batch that tells the size of the receive buffer in bytes.
    public func announceReceiveBuffer(_ size: Int) { deliver(.init(receiveBuffer: size)) }

    /// Suspends the machine: time passes with nobody awake, then `NetworkEvent.resumed(after:)` is delivered, then what
    /// became due meanwhile happens.
    public func suspend(for duration: Duration) {
        clock.jump(by: duration) { deliver(.init(events: [.resumed(after: max(duration, .zero))])) }
    }

    /// Makes the next requests fail, as when the kernel is out of memory.
    ///
    /// A request is a call of ``interfaces()`` or of ``routes(to:)``; all queries of a call fail together.
    ///
    /// - Parameters:
    ///   - count: The number of requests, from now; it replaces that of an earlier call. Values below 1 end the failures.
    ///   - errno: The error number of the `ReachabilityError`, whose code is `requestFailed`.
    public func failNextRequests(_ count: Int, errno: Int32) {
        state.withLock { $0.failures = (count, errno) }
    }

    /// Interrupts the next dumps: ``interfaces()`` throws `ReachabilityError.Code.interrupted`, as when links or addresses change
    /// while they are dumped (NLM_F_DUMP_INTR, netlink(7)).
    ///
    /// - Parameter count: The number of dumps, from now; it replaces that of an earlier call. Values below 1 end the interruptions.
    public func interruptNextDumps(_ count: Int) {
        state.withLock { $0.interruptions = count }
    }

    /// Ends the run: it throws `error`, or just returns if that is `nil`.
    ///
    /// If nobody runs the network, the next run ends so before anything is delivered.
    public func stop(throwing error: (any Error)? = nil) {
        let ending: Result<Void, any Error> = error.map { .failure($0) } ?? .success(())
        let parked = state.withLock { state in
            if state.run == nil { state.nextEnding = ending }
            return state.decide(nil, ending)
        }
        parked?.resume(with: ending)
    }

    private func deliver(_ letter: SimulatedNetworkState.Letter) {
        state.withLock { $0.post(letter) }
        deliverAll()
    }
}
