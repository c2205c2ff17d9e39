internal import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Has the clock tell the model when something happens there by itself: detections of duplicate addresses that end.
    func scheduleModel() {
        while true {
            let (deadline, timer) = state.withLock { ($0.kernel.nextDeadline, $0.modelTimer) }
            guard timer?.deadline != deadline.map(ManualClock.Instant.init) else { return }
            let next = deadline.map { deadline in
                clock.schedule(at: .init(offset: deadline)) { [weak self] in self?.advanceModel(to: deadline) }
            }
            // Another thread may have changed the model meanwhile: whoever comes later looks once more.
            let old = state.withLock { state in
                defer { state.modelTimer = next }
                return state.modelTimer
            }
            if let old { clock.cancel(old) }
        }
    }

    private func advanceModel(to deadline: Duration) {
        state.withLock { $0.modelTimer = nil }
        // The clock's nanosecond may begin a little before the model's deadline.
        let now = max(clock.now.offset, deadline)
        batch { kernel in kernel.advance(to: now) }
    }
}
