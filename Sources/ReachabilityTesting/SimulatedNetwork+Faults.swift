public import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Delivers the events of all changes that the body makes as one batch, after it.
    public func batch<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        let events = try collecting(body)
        if !events.isEmpty { enqueue(batch(events)) }
    }

    /// Makes changes that nobody announces: only an audit can find them.
    public func changeSilently<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        _ = try collecting(body)
    }

    /// Makes changes whose events are lost because the listener was too slow (ENOBUFS, netlink(7)).
    public func loseEvents<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        _ = try collecting(body)
        enqueue(batch([.overrun]))
    }

    /// Announces something without changing anything: the kernel sends some messages before the change, and some for nothing.
    public func announce(_ events: NetworkEvent...) { enqueue(batch(events)) }

    /// Suspends the machine for a time, and resumes it.
    public func suspend(for duration: Duration) {
        clock.jump(by: duration)
        enqueue(batch([.resumed(after: duration)]))
        clock.advance(by: .zero)
    }

    /// Delivers nothing but the news that datagrams from others than the kernel were dropped.
    public func announceForged(_ count: Int) {
        var batch = batch()
        batch.forged = count
        enqueue(batch)
    }

    /// Delivers nothing but the news that messages could not be understood.
    public func announceMalformed(_ count: Int) {
        var batch = batch()
        batch.malformed = count
        enqueue(batch)
    }

    /// Lets the next dumps and look-ups fail.
    public func failNextRequests(_ count: Int, errno: Int32) {
        state.withLock { $0.failures = (max(0, count), errno) }
    }

    private func collecting<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) -> [NetworkEvent] {
        let outer = state.withLock { state in
            defer { state.collected = [] }
            return state.collected
        }
        defer { state.withLock { $0.collected = outer } }
        try body()
        return state.withLock { $0.collected ?? [] }
    }
}
