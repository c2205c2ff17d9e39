internal import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Has the clock tell the model when something happens there by itself: detections of duplicate addresses that end.
    func scheduleModel() {
        while true {
            let (deadline, timer) = state.withLock { ($0.kernel.nextDeadline, $0.modelTimer) }
            guard timer?.deadline.offset != deadline else { return }
            let next = deadline.map { deadline in
                clock.schedule(at: .init(offset: deadline)) { [weak self] in self?.advanceModel() }
            }
            // Another thread may have changed the model meanwhile: whoever comes later looks once more.
            let old = state.withLock { state in
                defer { state.modelTimer = next }
                return state.modelTimer
            }
            if let old { clock.cancel(old) }
        }
    }

    private func advanceModel() {
        state.withLock { $0.modelTimer = nil }
        let now = clock.now.offset
        batch { kernel in kernel.advance(to: now) }
    }
}
