public import ReachableRetry

extension ManualClock: SchedulingClock {
    /// Has something done when the clock shows `deadline`.
    ///
    /// - Returns: What takes it back.
    package func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let timer = schedule(at: deadline, action)
        return { self.cancel(timer) }
    }
}

extension RetryBus {
    /// Suspends until a job waits for a condition or for a time, and its task sleeps.
    ///
    /// The way to meet a job that waits for the network: no timer tells of it. After this returns, what makes the job start, such
    /// as ``SimulatedNetwork/plug(_:)`` or ``ManualClock/advance(by:)``, will do so. Also waits for a job to be submitted.
    ///
    /// ```swift
    /// async let receipt = bus.retry(options: JobOptions(id: "photo")) { _ in try await upload(photo) }
    /// try await bus.parked("photo")
    /// try network.plug("eth0")
    /// ```
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    @discardableResult
    public func parked(_ id: JobID) async throws -> PendingJob { try await untilParked(id) }
}
