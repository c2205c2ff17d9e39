internal import Glibc
internal import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Delivers all that is queued.
    ///
    /// When it returns, all that was queued before the call has been delivered.
    ///
    /// From within `deliver` it returns at once: the thread goes on delivering when `deliver` returned.
    func deliverAll() {
        guard !isDelivering else { return }
        delivery.withLock { deliverQueue(&$0) }
        // Something was queued by one that did not wait, after the queue was seen empty and before the lock was free.
        deliverIfPossible()
    }

    /// Delivers all that is queued, unless somebody else is about it: they will deliver it.
    func deliverIfPossible() {
        guard !isDelivering else { return }
        // Whoever holds the lock looks again after giving it back, so that nothing stays behind.
        while state.withLock({ $0.hasMail }), delivery.withLockIfAvailable({ deliverQueue(&$0) }) != nil {}
        for starter in state.withLock({ $0.takeStarters() }) { starter.resume() }
    }

    /// Whether this thread is within `deliver`.
    private var isDelivering: Bool {
        let thread = pthread_self()
        return state.withLock { state in state.deliverer.map { pthread_equal($0, thread) != 0 } ?? false }
    }

    private func deliverQueue(_ delivery: inout Delivery) {
        while let (run, letter) = state.withLock({ $0.nextLetter() }) {
            let now = clock.now
            let pause = run.deliver(
                NetworkEventBatch(
                    letter.events, now: BootInstant(sinceBoot: now.offset), wallTime: Self.startOfTime.saturatingAdd(now.offset),
                    hasMore: letter.hasMore,
                    spoofed: letter.spoofed, malformed: letter.malformed, drops: letter.drops, reopens: letter.reopens,
                    receiveBuffer: letter.receiveBuffer))
            if let timer = delivery.timer { clock.cancel(timer) }
            delivery.timer = pause.map { pause in
                clock.schedule(at: now.advanced(by: max(pause, .zero))) { [weak self] in self?.deliverTick() }
            }
            state.withLock { $0.noteDelivery(run.id) }
        }
    }

    private func deliverTick() {
        state.withLock { $0.postTick() }
        deliverAll()
    }
}
